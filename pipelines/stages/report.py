"""Write the report: one HTML page with its pictures, and the short tables of README."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, select_autoescape
from PIL import Image

from pipelines.config import Run, Settings
from pipelines.reporting import papers, plots
from pipelines.reporting.archive import kept_results
from pipelines.reporting.results import history, number, read_comparisons, read_run, read_runs, read_sorters
from pipelines.stages.runner import refuse_leftovers
from rankops import lookup
from rankops.io.atomic import replaced_file, replaced_folder
from rankops.io.parquet import decode_images, matrix, read_table
from rankops.metrics.label_ranking import ranked_ceiling
from rankops.tasks.base import Metric

FIGURES = Path("reports/figures")
EXAMPLES = 12  # pictures of a run
SHEET = 6  # images that are shown under every loss
SOURCES = {"mnist": "MNIST digits", "bundled": "scikit-learn's bundled digits, not MNIST"}


def main(params: Settings) -> None:
    known = {"models/runs": [*params.runs, "none"], "metrics/runs": params.runs, "predictions": params.runs,
             "models/sorters": [*params.sorters, "none"], "metrics/sorters": params.sorters,
             "metrics/comparisons": params.comparisons}  # fmt: skip
    refuse_leftovers({folder: names for folder, names in known.items() if Path(folder).is_dir()})
    environment = Environment(
        loader=PackageLoader("pipelines.reporting"),
        autoescape=select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": _markdown_cell, "quoted": quote}
    environment.tests["numbers"] = _numbers
    environment.globals["width"] = lambda name: Image.open(FIGURES / name).width // 2  # two pixels for each of the page
    with replaced_folder(FIGURES) as folder:
        content = evidence(params, folder)
    for template, path in (("report.html.j2", "reports/index.html"), ("results.md.j2", "reports/results.md")):
        with replaced_file(path) as partial:
            partial.write_text(environment.get_template(template).render(content))


def evidence(params: Settings, folder: Path) -> dict[str, Any]:
    """Return what the templates show, and draw the pictures of the page into `folder`."""
    # All is read before anything is drawn, which takes long.
    runs, kept = read_runs(), kept_results()
    compared = read_comparisons() if params.comparisons else None
    measured = read_sorters() if params.sorters else None
    tasks: dict[tuple[str, str], list[str]] = {}
    for name, run in params.runs.items():
        tasks.setdefault((run.task, run.dataset), []).append(name)
    return {
        "source": SOURCES[json.loads(Path("data/digits/manifest.json").read_text())["source"]],
        "compute": params.compute,
        "comparisons": [_comparison(params, runs, compared, name, folder) for name in params.comparisons],
        "sheet": _sheet(params, folder),
        "tasks": [_task(params, runs, *key, names, folder) for key, names in tasks.items()],
        "runs": _runs(params, runs),
        "sorters": {} if measured is None else _sorters(params, measured, folder),
        "kept": kept,
        "missing": _not_reproduced(params),
    }


def _comparison(params: Settings, runs: pd.DataFrame, table: pd.DataFrame, name: str, folder: Path) -> dict[str, Any]:
    """Return a comparison's baseline and, for each of its runs, the difference from that; and draw them."""
    table = table[table["comparison"] == name]
    if table.empty:
        raise ValueError(f"metrics/comparisons/{name}.json: no runs; make it again with `dvc repro`")
    question, baseline, metric = table.iloc[0][["question", "baseline", "metric"]]
    about = _metrics(params.runs[baseline].task).get(metric, Metric(metric, metric))
    plots.differences(folder / f"comparison-{name}.png", table)
    rows = [
        {
            "loss": _loss(params.runs[row.run]),
            "value": _value(runs, row.run, metric),
            "difference": number(row.difference, row.low, row.high, sign=True),
            "verdict": _verdict(row.low, row.high, lower_is_better=about.lower_is_better),
            "p": "< 0.001" if row.p < 0.001 else number(row.p),
            "seeds": row.seeds,
        }
        for row in table.itertuples()
    ]
    return {
        "task": _title(params, params.runs[baseline]),
        "metric": about,
        "question": question,
        "baseline": {
            "run": baseline,
            "loss": _loss(params.runs[baseline]),
            "value": _value(runs, baseline, metric),
        },
        "runs": rows,
        "picture": f"comparison-{name}.png",
    }


def _metrics(task: str) -> dict[str, Metric]:
    return {metric.name: metric for metric in lookup.find("tasks", task).metrics}


def _title(params: Settings, run: Run) -> str:
    """Return the title of a run's task, with its dataset if the task has several."""
    title = lookup.find("tasks", run.task).title
    several = {other.dataset for other in params.runs.values() if other.task == run.task} != {run.dataset}
    return f"{title}, {run.dataset}" if several else title


def _loss(run: Run) -> str:
    """Return a run's loss, and what else its objective has."""
    names = [run.loss.name, *(name for name in (run.sorter, run.auxiliary.name) if name != "none")]
    return " + ".join(names)


def _value(runs: pd.DataFrame, run: str, metric: str) -> str:
    """Return a metric of a run, over its seeds.

    Raises:
        ValueError: the run has no such metric.
    """
    rows = runs[(runs["run"] == run) & (runs["metric"] == metric) & runs["seed"].isna()]
    if rows.empty:
        raise ValueError(f"metrics/runs/{run}.json: no {metric}; make it again with `dvc repro`")
    return number(*rows.iloc[0][["value", "low", "high"]])


def _verdict(low: float, high: float, *, lower_is_better: bool) -> str:
    """Return what the interval of a difference says: `better` or `worse` if it excludes 0.

    >>> _verdict(0.1, 0.2, lower_is_better=False), _verdict(0.1, 0.2, lower_is_better=True)
    ('better', 'worse')
    """
    if low <= 0 <= high:
        return "no clear difference"
    return "better" if (low > 0) != lower_is_better else "worse"


def _runs(params: Settings, runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a run: its main metric, and the papers' beside."""
    rows = []
    for name, run in params.runs.items():
        main_metric = next(iter(_metrics(run.task).values()))
        row = {"run": name, "metric": main_metric.title, "value": _value(runs, name, main_metric.name)}
        row["seeds"] = str(len(run.seeds))
        paper = papers.printed(run.task, _adapter(params, run.dataset), run.loss.name)
        row["papers"] = _papers(paper, main_metric.name, separator="; ")
        rows.append(row)
    return pd.DataFrame(rows)


def _papers(printed: dict[str, dict[str, str]], metric: str, *, separator: str) -> str:
    rows = [(values[metric], where) for where, values in printed.items() if metric in values]
    return separator.join(f"{value} ({where})" if where else value for value, where in rows)


def _adapter(params: Settings, dataset: str) -> str:
    """Return the file in rankops/datasets that a dataset is made by."""
    return params.datasets[dataset].name if dataset in params.datasets else dataset


def _task(
    params: Settings, runs: pd.DataFrame, task: str, dataset: str, names: list[str], folder: Path
) -> dict[str, Any]:
    """Return the details of a task on a dataset: a column a run, and the pictures of each."""
    columns: dict[str, dict[str, str]] = {}
    pictures = {}
    for name in names:
        run, trained = params.runs[name], read_run(f"models/runs/{name}")
        settings = ", ".join(
            f"{place.removeprefix('training.')} {value}" for place, value in trained["setting"].items()
        )
        start = run.start.removeprefix("models/runs/").replace("none", "random weights")
        column = {"loss": _loss(run), "model": run.model.name, "start": start}
        column |= {"seeds": ", ".join(map(str, trained["seeds"])), "chosen setting": settings}
        printed = papers.printed(task, _adapter(params, dataset), run.loss.name)
        for metric in _metrics(task).values():
            column[metric.title] = _value(runs, name, metric.name)
            column[f"papers' {metric.title}"] = _papers(printed, metric.name, separator=", ")
        columns[name] = column
        pictures[name] = _pictures(params, runs, name, trained, folder)
    table = pd.DataFrame(columns)
    table = table[(table != "").any(axis=1)]
    return {
        "title": _title(params, params.runs[names[0]]),
        "text": _about(params, task, dataset, names[0]),
        "table": table.rename_axis("").reset_index(),
        "pictures": pictures,
    }


def _about(params: Settings, task: str, dataset: str, run: str) -> str:
    text = f"Test split of {dataset}"
    if dataset in params.datasets:
        scenes = params.datasets[dataset]
        train = sum(scenes.deliveries(params.data)["train"])
        text += f": {train:,} training and {scenes.rows.test:,} test examples of {scenes.canvas} px"
    text += f". The papers: {papers.ABOUT[task]}." if task in papers.ABOUT else "."
    if task == "label_ranking":
        path = Path(f"predictions/{run}.parquet")
        most = ranked_ceiling(matrix(read_table(path, ["true_label_ranks"]), "true_label_ranks", path=path))
        text += f" A perfect ranking scores {number(most)} ranked mAP on this split."
    return text


def _pictures(params: Settings, runs: pd.DataFrame, name: str, trained: dict[str, Any], folder: Path) -> list[str]:
    """Draw a run's learning curves and examples, and return the names of the files."""
    histories = {f"seed {seed}": history(f"models/runs/{name}/seed{seed}") for seed in trained["seeds"]}
    plots.learning_curves(folder / f"{name}-learning_curves.png", histories)
    draw = EXAMPLES_OF.get(params.runs[name].task)
    if draw is None or params.runs[name].dataset in params.real_data:  # the stage does not depend on real images
        return [f"{name}-learning_curves.png"]
    draw(folder / f"{name}-examples.png", params, runs, name, trained["best"])
    return [f"{name}-examples.png", f"{name}-learning_curves.png"]


def _predictions(name: str, seed: int, columns: list[str]) -> Any:
    """Return what one seed of a run predicts of the test split."""
    table = read_table(f"predictions/{name}.parquet", ["seed", *columns])
    return table.filter(np.equal(table["seed"].to_numpy(), seed))


def _images(params: Settings, dataset: str, count: int) -> np.ndarray:
    path = Path(f"data/{dataset}/test.parquet")
    return decode_images(read_table(path, ["image"])["image"][:count], path=path, threads=params.compute.threads)


def _label_ranks(name: str, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the true and the predicted label ranks of the first test images."""
    columns = ["true_label_ranks", "label_ranks"]
    table = _predictions(name, seed, columns)[:count]
    true, predicted = (matrix(table, column, path=f"predictions/{name}.parquet").numpy() for column in columns)
    return true, predicted


def _draw_orders(path: Path, params: Settings, runs: pd.DataFrame, name: str, seed: int) -> None:
    true, predicted = _label_ranks(name, seed, EXAMPLES)
    images = _images(params, params.runs[name].dataset, EXAMPLES)
    plots.orders(path, images, true, {params.runs[name].loss.name: predicted})


def _draw_predicted(path: Path, params: Settings, runs: pd.DataFrame, name: str, seed: int) -> None:
    table = _predictions(name, seed, ["score", "target"])
    plots.predicted(path, table["score"].to_numpy(), table["target"].to_numpy())


def _draw_average_precisions(path: Path, params: Settings, runs: pd.DataFrame, name: str, seed: int) -> None:
    counts = np.stack(_predictions(name, seed, ["labels"])["labels"].to_numpy()).sum(0)
    rows = runs[(runs["run"] == name) & runs["metric"].str.startswith("average_precision.") & runs["seed"].isna()]
    classes = rows["metric"].str.removeprefix("average_precision.").astype(int)
    plots.average_precisions(path, rows.set_index(classes)[["value", "low", "high"]], counts)


def _draw_captions(path: Path, params: Settings, runs: pd.DataFrame, name: str, seed: int) -> None:
    table = _predictions(name, seed, ["image_embedding", "captions", "text_embeddings"])
    embeddings = np.stack(table["image_embedding"][:EXAMPLES].to_numpy())
    texts = table["text_embeddings"].combine_chunks().flatten().flatten().to_numpy().reshape(-1, embeddings.shape[1])
    captions = [(caption, image) for image, several in enumerate(table["captions"].to_pylist()) for caption in several]
    best = np.argsort(-(embeddings @ texts.T), axis=1, kind="stable")[:, :3]
    found = [[(captions[one][0], captions[one][1] == image) for one in row] for image, row in enumerate(best)]
    plots.found_captions(path, _images(params, params.runs[name].dataset, EXAMPLES), found)


EXAMPLES_OF = {
    "label_ranking": _draw_orders,
    "memorability": _draw_predicted,
    "multilabel": _draw_average_precisions,
    "retrieval": _draw_captions,
}


def _sheet(params: Settings, folder: Path) -> list[dict[str, Any]]:
    """Return the first test images with their true order of labels and that by each loss, and draw them as one picture.

    Of each loss the first run on the first dataset that is made here, its seed that is best on validation.
    """
    ours = {name: run for name, run in params.runs.items()
            if run.task == "label_ranking" and run.dataset not in params.real_data}  # fmt: skip
    if not ours:
        return []
    dataset = next(iter(ours.values())).dataset
    by_loss: dict[str, str] = {}
    for name, run in ours.items():
        if run.dataset == dataset:
            by_loss.setdefault(_loss(run), name)
    images, predicted = _images(params, dataset, SHEET), {}
    for loss, name in by_loss.items():
        true, predicted[loss] = _label_ranks(name, read_run(f"models/runs/{name}")["best"], SHEET)
    plots.orders(folder / "orders.png", images, true, predicted)
    cards = []
    for number_, image in enumerate(images):
        Image.fromarray(image if image.ndim == 2 else image.transpose(1, 2, 0)).save(folder / f"image-{number_}.png")
        orders = {"true": true[number_]} | {loss: ranks[number_] for loss, ranks in predicted.items()}
        cards.append(
            {"picture": f"image-{number_}.png",
             "orders": {loss: plots.places(true[number_], ranks) for loss, ranks in orders.items()}}
        )  # fmt: skip
    return cards


def _sorters(params: Settings, table: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Return a table with a row a sorter, and the pictures by title."""
    wide = table.pivot(index="sorter", columns="metric", values="value").loc[list(params.sorters)]
    l1 = table[table["metric"] == "l1"].set_index("sorter")
    rows = [
        {
            "sorter": name,
            "L1": number(*l1.loc[name, ["value", "low", "high"]], digits=4),
            "paper's L1 (d = 100)": papers.SORTERS.get(name, ""),
            "exact ranks": number(row["exact_ranks"]),
            "vanishing gradients": number(row["gradient.vanishing"]),
            "wrong signs": number(row["gradient.wrong_signs_of_others"]),
            "d": f"{row['length']:.0f}",
            "parameters": f"{row['parameters']:,.0f}",
        }
        for name, row in wide.iterrows()
    ]
    by_kind = wide.filter(like="l1_by_kind.").rename(columns=lambda name: name.removeprefix("l1_by_kind."))
    plots.sorter_errors(folder / "sorters-l1_by_kind.png", by_kind.rename_axis(index=None, columns=None).T)
    pictures = {"L1 by kind of vectors": "sorters-l1_by_kind.png"}
    for name in params.sorters:
        if Path(f"models/sorters/{name}/history.csv").is_file():  # there is none if nothing was trained
            pictures[f"{name}: learning curves"] = f"sorter-{name}-learning_curves.png"
            curves = {name: history(f"models/sorters/{name}")}
            plots.learning_curves(folder / pictures[f"{name}: learning curves"], curves)
    return {"table": pd.DataFrame(rows), "pictures": pictures}


def _not_reproduced(params: Settings) -> pd.DataFrame:
    """Return the papers' items that these params do not reproduce, a row each."""
    here = {run.dataset for run in params.runs.values()}
    rows = [(item, data, f"data/raw/{name} and a run: docs/real_data.md") for item, data, name in papers.ITEMS
            if name not in here]  # fmt: skip
    scenes = [
        params.datasets[name] for name in here & set(params.datasets) if params.datasets[name].name == "ranked_mnist"
    ]
    for item, images, scale in (("RLSEP, Table 1", 5_000, "subset"), ("RLSEP, Table 2", 60_000, "paper")):
        if (images, 224) not in {(one.rows.train, one.canvas) for one in scenes}:
            rows.append((f"{item}: label ranking", f"{images:,} images of 224 px", f"the scale {scale}, on a GPU"))
    if params.score_vectors.length != 100:
        rows.append(
            ("SoDeep, Table 1: sorters", "d = 100, LSTM of 2 x 512 units, 400 epochs", "the scale paper, on a GPU")
        )
    return pd.DataFrame(rows, columns=["item", "setting", "how to get it"])


def _numbers(column: pd.Series) -> bool:
    """Return whether all that stands in a column are numbers, so that they are aligned.

    >>> _numbers(pd.Series(["+0.5 (0.4 to 0.6)", ""])), _numbers(pd.Series(["5,000", "VOC"])), _numbers(pd.Series([""]))
    (True, False, False)
    """
    filled = [text for text in column if text]
    return bool(filled) and all(text[0].isdigit() or text[0] in "+-" for text in filled)


def _markdown_cell(text: object) -> str:
    """Return a text as a cell of a Markdown table.

    >>> _markdown_cell("a|b <i>")
    'a\\\\|b &lt;i>'
    """
    return str(text).replace("|", r"\|").replace("<", "&lt;").replace("\n", " ")
