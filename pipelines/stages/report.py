"""Tables and pictures of all runs, beside the papers' figures: Markdown, one HTML page and PNG files."""

import json
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pipelines.figures import example_sheet, learning_curves, sorter_errors
from pipelines.settings import Settings
from pipelines.stage import refuse_leftovers, run
from rankops.atomic_writes import replaced_file, replaced_folder
from rankops.tables import decode_images, read_table

EXAMPLES = 12
# Papers' figures at their scale: Ranked MNIST, 60,000 images of 224 px, MobileNetV3-Small; sorters, d = 100.
PAPER_RUNS = {
    "cross_entropy": {"accuracy": 0.876, "exact_match": 0.057, "mean_average_precision": 0.804, "f1": 0.992},
    "lsep": {"accuracy": 0.878, "exact_match": 0.056, "mean_average_precision": 0.793, "f1": 0.989},
    "rlsep": {"accuracy": 0.988, "exact_match": 0.726, "mean_average_precision": 0.959, "f1": 0.991},
}
PAPER_SORTERS = {"handcrafted": 0.0350, "cnn": 0.0120, "lstm": 0.0033}


def _figure(values: dict[str, float], digits: int = 3) -> str:
    return f"{values['value']:.{digits}f} ({values['low']:.{digits}f} to {values['high']:.{digits}f})"


def run_table(params: Settings) -> pd.DataFrame:
    """One row a label-ranking run: its main figures with 95 % intervals, and the paper's."""
    rows = []
    for name, options in params.runs.items():
        metrics = json.loads(Path(f"metrics/runs/{name}.json").read_text())
        paper = PAPER_RUNS.get(options.loss.name, {})
        row = {"run": name}
        for kind, figure, title in (
            ("ranked", "accuracy", "ranked accuracy"),
            ("ranked", "exact_match", "ranked 0-1"),
            ("ranked", "mean_average_precision", "ranked mAP"),
            ("unranked", "f1", "unranked F1"),
        ):
            row[title] = _figure(metrics[kind][figure])
            row[f"paper's {title}"] = f"{paper[figure]:.3f}" if figure in paper else ""
        rows.append(row)
    return pd.DataFrame(rows)


def sorter_table() -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a sorter with its L1, and L1 by kind with a column a sorter."""
    rows, by_kind = [], {}
    for path in sorted(Path("metrics/sorters").glob("*.json")):
        metrics = json.loads(path.read_text())
        rows.append(
            {
                "sorter": path.stem,
                "L1": _figure(metrics["l1"], 4),
                "paper's L1 (d = 100)": f"{PAPER_SORTERS[path.stem]:.4f}" if path.stem in PAPER_SORTERS else "",
                "exact ranks": f"{metrics['exact_ranks']:.3f}",
                "d": metrics["length"],
                "parameters": f"{metrics['parameters']:,}",
            }
        )
        by_kind[path.stem] = metrics["l1_by_kind"]
    return pd.DataFrame(rows), pd.DataFrame(by_kind)


def _markdown(table: pd.DataFrame) -> str:
    lines = [" | ".join(table.columns), " | ".join("---" for _ in table.columns)]
    lines += [" | ".join(str(value) for value in row) for row in table.itertuples(index=False)]
    return "\n".join(f"| {line} |" for line in lines)


def main(params: Settings) -> None:
    refuse_leftovers(
        {
            "models/runs": params.runs,
            "metrics/runs": params.runs,
            "predictions": params.runs,
            "models/sorters": params.sorters,
            "metrics/sorters": [*params.sorters, *params.benchmark_sorters.untrained],
        }
    )
    digits = json.loads(Path("data/digits/manifest.json").read_text())
    source = {"mnist": "MNIST digits", "bundled": "scikit-learn's bundled digits, not MNIST"}[digits["source"]]
    runs, (sorters, by_kind) = run_table(params), sorter_table()
    with replaced_folder("reports/figures") as folder:
        sorter_errors(folder / "sorters-l1_by_kind.png", by_kind, title="L1 by kind of vectors, test set")
        for name in params.sorters:
            history = pd.read_csv(f"models/sorters/{name}/history.csv")
            learning_curves(folder / f"sorter-{name}-learning_curves.png", history, title=f"Sorter {name}")
        for name, options in params.runs.items():
            history = pd.read_csv(f"models/runs/{name}/history.csv")
            title = f"{name}, {source}"
            learning_curves(folder / f"{name}-learning_curves.png", history, title=title)
            path = Path(f"data/{options.dataset}/test.parquet")
            first = read_table(path, ["image", "label_ranks"]).slice(0, EXAMPLES)
            found = pq.read_table(f"predictions/{name}.parquet", columns=["label_ranks"]).slice(0, EXAMPLES)
            example_sheet(
                folder / f"{name}-examples.png",
                decode_images(first["image"], path=path, threads=params.compute.threads),
                np.stack(first["label_ranks"].to_numpy()),
                np.stack(found["label_ranks"].to_numpy()),
                title=title,
            )
        pictures = sorted(path.name for path in folder.iterdir())
    captions = {
        "Label ranking": (f"Test set, {source}, with 95 % bootstrap intervals; the papers' are of 224 px.", runs),
        "Sorters": ("L1: mean |rank error| / d on the same test vectors, with 95 % bootstrap intervals.", sorters),
    }
    with replaced_file("reports/results.md") as partial:
        parts = [f"**{title}.** {text}\n\n{_markdown(table)}\n" for title, (text, table) in captions.items()]
        partial.write_text("\n".join(parts))
    with replaced_file("reports/index.html") as partial:
        body = "".join(
            f"<h2>{title}</h2><p>{escape(text)}</p>{table.to_html(index=False, border=0)}"
            for title, (text, table) in captions.items()
        )
        body += "".join(f'<h3>{escape(name)}</h3><img src="figures/{name}" alt="{escape(name)}">' for name in pictures)
        style = "body{font-family:sans-serif;margin:2em}td,th{padding:.3em .8em;text-align:left}img{max-width:100%}"
        partial.write_text(
            f"<!doctype html><meta charset=utf-8><title>RankOps</title><style>{style}</style>"
            f"<h1>RankOps</h1><p>Made with {escape(source)}.</p>{body}\n"
        )


if __name__ == "__main__":
    run(main)
