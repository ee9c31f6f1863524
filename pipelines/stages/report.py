"""Tables and pictures of all runs, beside the papers' figures: Markdown, one HTML page and PNG files."""

import json
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.tree import Tree

from pipelines.config.schema import FOLDS, Run, Settings
from pipelines.reporting import archive, papers
from pipelines.reporting.histories import history_of_run
from pipelines.reporting.html import Section, markdown, page
from pipelines.reporting.perfect_ranking import perfect_mean_average_precision
from pipelines.reporting.plots import (
    average_precisions,
    example_sheet,
    found_captions,
    learning_curves,
    predicted,
    sorter_errors,
)
from pipelines.reporting.results import figures
from pipelines.stages.runner import refuse_leftovers, run
from rankops.io.atomic import replaced_file, replaced_folder
from rankops.io.parquet import decode_images, read_table

EXAMPLES = 12
# What a table shows of a task: the figure's place in metrics/runs/<run>.json, and its title.
SHOWN = {
    "label_ranking": {
        "ranked.accuracy": "ranked accuracy", "ranked.exact_match": "ranked 0-1",
        "ranked.mean_average_precision": "ranked mAP", "unranked.f1": "unranked F1",
    },
    "memorability": {"spearman": "Spearman"},
    "multilabel": {"mean_average_precision": "mAP"},
    "retrieval": {
        f"{direction}.{figure}": f"{title} {short}"
        for direction, title in (("image_to_text", "caption"), ("text_to_image", "image"))
        for figure, short in (("recall_at_1", "R@1"), ("recall_at_5", "R@5"), ("recall_at_10", "R@10"),
                              ("median_rank", "median rank"))
    },
}  # fmt: skip
# RLSEP's Table 2 has these of ranked labels and, but for the last, of unranked ones.
TABLE_2 = {
    "precision": "Pr", "recall": "Re", "f1": "F1", "accuracy": "Acc", "exact_match": "0-1",
    "mean_average_precision": "mAP",
}  # fmt: skip
LOCK = "in dvc.lock"
TITLES = {
    "label_ranking": "Label ranking", "memorability": "Memorability", "multilabel": "Multi-label classification",
    "retrieval": "Cross-modal retrieval",
}  # fmt: skip
DATA = {
    "memorability": "made clips, the paper's are VideoMem",
    "multilabel": "made images with long-tailed labels, the paper's are VOC 2007",
    "retrieval": "made scenes with captions, {folds} folds of {fold} images; the paper's are COCO, of 1,000 each",
}
# The papers' items on real data: the adapter's name, the task, the item and the data.
REAL_DATA = {
    "videomem": ("memorability", "SoDeep, Table 2: memorability", "VideoMem"),
    "coco_captions": ("retrieval", "SoDeep, Table 3: cross-modal retrieval", "COCO captions"),
    "voc2007": ("multilabel", "SoDeep, Table 4: multi-label classification", "VOC 2007"),
    "arc": ("label_ranking", "RLSEP, Table 2: label ranking", "ARC"),
}


def _figure(found: dict[str, float], place: str, shown: Callable[[float], str] = "{:.3f}".format) -> str:
    """A figure of a metrics file with its interval."""
    return f"{shown(found[place])} ({shown(found[f'{place}.low'])} to {shown(found[f'{place}.high'])})"


def _per_cent(value: float) -> str:
    """Rounded as where it is shown as a share, so that one page does not round it in two ways."""
    return f"{100 * float(f'{value:.3f}'):.1f}"


def _published(params: Settings, task: str, dataset: str, loss: str) -> dict[str, float]:
    """The paper's figures, by their places; none where it has no such images, or not so many."""
    if dataset == "lamem":  # of which the paper prints nothing
        return {}
    if task != "label_ranking":
        return papers.OTHER_TASKS.get((task, loss), {})
    tables = {"ranked_mnist": papers.RANKED_MNIST.get(_images(params), {}), "arc": papers.ARC}
    printed = tables.get(dataset, {}).get(loss, {})
    return {place: float(value.split()[0]) / 100 for place, value in printed.items()}


def _images(params: Settings) -> int:
    """How many images of Ranked MNIST there were to train on, those that came in later included."""
    return sum(params.ranked_mnist.deliveries(params.data)["train"])


def _title(params: Settings, task: str, dataset: str) -> str:
    made_here = {run.dataset for run in params.all_runs.values() if run.task == task} - set(params.real_data)
    return TITLES[task] if made_here == {dataset} else f"{TITLES[task]}, {dataset}"


def _data(params: Settings, task: str) -> str:
    if task != "label_ranking":
        return DATA[task].format(folds=FOLDS, fold=params.captions.rows.test // FOLDS)
    images, canvas = _images(params), params.ranked_mnist.canvas
    paper = "also" if images in papers.RANKED_MNIST else "not"
    said = f"{images:,} training images of {canvas} px, the paper's are {paper} of so many, of 224 px"
    return f"{said}, and its figures means of 30 networks on 100 test images" if images == papers.SUBSET else said


def run_table(params: Settings, task: str, dataset: str) -> pd.DataFrame:
    """One row a run of a task on a dataset: its main figures with 95 % intervals, and the paper's."""
    rows = []
    for name, options in params.all_runs.items():
        if (options.task, options.dataset) != (task, dataset):
            continue
        found = figures(Path(f"metrics/runs/{name}.json"))
        paper = _published(params, task, dataset, options.loss.name)
        row = {"run": name, "seed": str(options.seed)}
        for place, title in SHOWN[task].items():
            row[title] = _figure(found, place, "{:.1f}".format if title.endswith("rank") else "{:.3f}".format)
            published = paper.get(place)
            row[f"paper's {title}"] = "" if published is None else f"{published:.3f}"
        row[LOCK] = in_lock(Path("models/runs") / name)
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.loc[:, (table != "").any()] if len(table) else table


def all_label_ranking_figures(params: Settings, dataset: str) -> pd.DataFrame:
    """Each run's figures that RLSEP's Table 2 has, in per cent with 95 % intervals, and below them the paper's.

    Two rows a run, ranked and unranked, and as many for each number of training images that the paper has of its loss:
    of ARC one.
    """
    rows = []
    for name, options in params.all_runs.items():
        if (options.task, options.dataset) != ("label_ranking", dataset):
            continue
        metrics, loss = figures(Path(f"metrics/runs/{name}.json")), options.loss.name
        ours = {place: _figure(metrics, place, _per_cent) for place in metrics if f"{place}.low" in metrics}
        rivals = {f"here, {_images(params):,} images" if dataset == "ranked_mnist" else "here": ours}
        if dataset == "arc":
            rivals["the paper's"] = papers.ARC.get(loss, {})
        if dataset == "ranked_mnist":
            rivals |= {f"the paper's, {images:,} images": printed.get(loss, {})
                       for images, printed in papers.RANKED_MNIST.items()}  # fmt: skip
        for labels in ("ranked", "unranked"):
            for where, of_place in rivals.items():
                cells = {title: of_place.get(f"{labels}.{place}", "") for place, title in TABLE_2.items()}
                if any(cells.values()):
                    rows.append({"run": name, "labels": labels, "trained": where} | cells)
    return pd.DataFrame(rows)


def in_lock(folder: Path) -> str:
    """The start of the hash by which dvc.lock knows a folder: it stands in the entry of the stage that made it."""
    tree = Tree()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = md5(path.read_bytes()).hexdigest()
        tree.add(path.relative_to(folder).parts, None, HashInfo("md5", digest))
    tree.digest()
    return tree.hash_info.value[:8]


def _examples(path: Path, name: str, options: Run, *, title: str, threads: int) -> None:
    """A picture of what a run does on the first test examples, or on all of them."""
    found = pq.read_table(f"predictions/{name}.parquet")
    if options.task == "memorability":
        predicted(path, found["score"].to_numpy(), found["target"].to_numpy(), title=title)
        return
    if options.task == "multilabel":
        counts = np.stack(found["labels"].to_numpy()).sum(0)
        metrics = json.loads(Path(f"metrics/runs/{name}.json").read_text())
        average_precisions(path, metrics["average_precision"], counts, title=title)
        return
    data = Path(f"data/{options.dataset}/test.parquet")
    columns = ["image", "captions" if options.task == "retrieval" else "label_ranks"]
    first = read_table(data, columns).slice(0, EXAMPLES)
    images = decode_images(first["image"], path=data, threads=threads)
    if options.task == "label_ranking":
        ranks = [np.stack(table["label_ranks"].to_numpy()) for table in (first, found.slice(0, EXAMPLES))]
        example_sheet(path, images, *ranks, title=title)
        return
    placed = np.stack(found["image_embedding"].slice(0, EXAMPLES).to_numpy())
    texts = found["text_embeddings"].combine_chunks().flatten().flatten().to_numpy().reshape(-1, placed.shape[1])
    captions = [caption for several in found["captions"].to_pylist() for caption in several]
    best = np.argsort(-(placed @ texts.T), axis=1, kind="stable")[:, :3]
    several = len(captions) // len(found)
    found_captions(
        path, images, [[captions[one] for one in row] for row in best],
        [[one // several == image for one in row] for image, row in enumerate(best)], title=title,
    )  # fmt: skip


def sorter_table(params: Settings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a sorter with its L1, and L1 by kind with a column a sorter."""
    rows, by_kind = [], {}
    for path in sorted(Path("metrics/sorters").glob("*.json")):
        metrics, trained = json.loads(path.read_text()), Path("models/sorters") / path.stem
        rows.append(
            {
                "sorter": path.stem,
                "seed": str(params.sorters[path.stem].seed) if path.stem in params.sorters else "",
                "L1": _figure(figures(metrics), "l1", "{:.4f}".format),
                "paper's L1 (d = 100)": f"{papers.SORTERS[path.stem]:.4f}" if path.stem in papers.SORTERS else "",
                "exact ranks": f"{metrics['exact_ranks']:.3f}",
                "vanishing gradients": f"{100 * metrics['gradient']['vanishing']:.1f} %",
                "wrong signs": f"{100 * metrics['gradient']['wrong_signs_of_others']:.1f} %",
                "d": metrics["length"],
                "parameters": f"{metrics['parameters']:,}",
                LOCK: in_lock(trained) if trained.is_dir() else "",
            }
        )
        by_kind[path.stem] = metrics["l1_by_kind"]
    return pd.DataFrame(rows), pd.DataFrame(by_kind)


def _label_ranking(rows: int, canvas: int, digits: str, model: str, training: dict[str, Any]) -> str:
    moved = f", images moved by up to {training['shift']} px" if training["shift"] else ""
    return (
        f"{rows:,} images of {canvas} px with {digits}; {model}; up to {training['epochs']} epochs of "
        f"{training['optimizer']} at {training['lr']:g}{moved}"
    )


def _sorters(length: int, layers: int, hidden: int, epochs: int) -> str:
    return f"d = {length}; LSTM of {layers} x {hidden} units; up to {epochs} epochs"


def not_reproduced(params: Settings, *, digits: str = "MNIST digits") -> pd.DataFrame:
    """The papers' items that these params do not reproduce, a row each; what they do reproduce has none.

    Args:
        params: what was run.
        digits: what its images are drawn of.
    """
    ours, scorer = params.ranked_mnist, params.training.label_ranking.scorer
    models = sorted({run.model.name for run in params.runs.values() if run.dataset == "ranked_mnist"})
    steps = scorer.optimizer
    recipe = {"epochs": scorer.epochs, "shift": scorer.shift, "optimizer": steps.name, "lr": steps.args.get("lr", 0)}
    here = _label_ranking(_images(params), ours.canvas, digits, ", ".join(models) or "no run", recipe)
    rows = []
    for table, images, scale in (("1, subset", 5_000, "subset"), ("2, all images", 60_000, "paper")):
        recipe = {"epochs": 300, "shift": 0, "optimizer": "SGD", "lr": 1e-3}
        paper = _label_ranking(images, 224, "MNIST digits", "mobilenet_v3_small", recipe)
        how = f"make scale SCALE={scale} && make repro (a GPU)"
        if scale == "subset":
            how += f"; its 30 seeds: make label-ranking SCALE={scale}"
        rows.append((f"RLSEP, Table {table}", paper, here, how))
    here, lstm = "no sorter lstm", params.sorters.get("lstm")
    if lstm is not None:
        here = _sorters(
            params.score_vectors.length, lstm.args.get("layers", 2), lstm.args.get("hidden", 512), lstm.epochs
        )
    paper = _sorters(100, 2, 512, 400)
    rows.append(("SoDeep, Table 1: sorters", paper, here, "make scale SCALE=paper && make repro (a GPU)"))
    for name, (task, item, paper) in REAL_DATA.items():
        datasets = sorted({run.dataset for run in params.all_runs.values() if run.task == task})
        if name not in datasets:
            rows.append((item, paper, ", ".join(datasets), f"data/raw/{name} and a run of it: docs/real_data.md"))
    table = pd.DataFrame(rows, columns=["the paper's", "its setting", "setting here", "how to get it"])
    return table[table["its setting"] != table["setting here"]]


def main(params: Settings) -> None:
    refuse_leftovers(
        {
            "models/runs": params.all_runs,
            "metrics/runs": params.all_runs,
            "predictions": params.all_runs,
            "models/sorters": params.sorters,
            "metrics/sorters": [*params.sorters, *params.benchmark_sorters.untrained],
        }
    )
    digits = json.loads(Path("data/digits/manifest.json").read_text())
    source = {"mnist": "MNIST digits", "bundled": "scikit-learn's bundled digits, not MNIST"}[digits["source"]]
    sorters, by_kind = sorter_table(params)
    names: dict[str, list[str]] = {"Sorters": ["sorters-l1_by_kind"]}  # of each section's pictures
    with replaced_folder("reports/figures") as folder:
        sorter_errors(folder / "sorters-l1_by_kind.png", by_kind, title="L1 by kind of vectors, test set")
        for name in params.sorters:
            history = pd.read_csv(f"models/sorters/{name}/history.csv")
            learning_curves(folder / f"sorter-{name}-learning_curves.png", history, title=f"Sorter {name}")
            names["Sorters"].append(f"sorter-{name}-learning_curves")
        for name, options in params.all_runs.items():
            real = options.dataset in params.real_data
            title = f"{name}, {options.dataset}" if real else f"{name}, {source}"
            learning_curves(folder / f"{name}-learning_curves.png", history_of_run(f"models/runs/{name}"), title=title)
            shown = names.setdefault(_title(params, options.task, options.dataset), [])
            if not real:  # this stage does not depend on the images of real data
                _examples(
                    folder / f"{name}-examples.png", name, options, title=title, threads=params.compute.threads
                )  # fmt: skip
                shown.append(f"{name}-examples")
            shown.append(f"{name}-learning_curves")
    pictures = {
        title: tuple(Path(f"figures/{name}.png") for name in sorted(shown, key=lambda name: "learning_curves" in name))
        for title, shown in names.items()
    }
    sections, all_figures = {}, {}
    for task, dataset in sorted({(options.task, options.dataset) for options in params.all_runs.values()}):
        real, title = dataset in params.real_data, _title(params, task, dataset)
        data = "the paper's at its own scale" if real else f"{source}; {_data(params, task)}"
        text = f"Test set, with 95 % bootstrap intervals; {data}."
        if (task, real) == ("label_ranking", False):
            most = perfect_mean_average_precision(Path(f"data/{dataset}/test.parquet"))
            text += f" A ranking without any mistake has a ranked mAP of {most:.3f} here."
        sections[title] = Section(text, run_table(params, task, dataset), pictures[title])
        if task == "label_ranking":
            all_figures[f"{title}: all figures"] = Section(
                f"Per cent, with 95 % bootstrap intervals; {data}. Ranked figures are of the order of labels, "
                "unranked ones of which labels are there; 0-1 is the share of images without any mistake.",
                all_label_ranking_figures(params, dataset),
            )
    sections["Sorters"] = Section(
        "L1: mean |rank error| / d on the same test vectors, with 95 % bootstrap intervals.",
        sorters,
        pictures["Sorters"],
    )
    with replaced_file("reports/results.md") as partial:
        partial.write_text(markdown(sections))
    sections |= all_figures
    missing = not_reproduced(params, digits=source)
    if len(missing):
        sections["Not reproduced here"] = Section("What the papers did with other data, sizes or recipes.", missing)
    sections |= archive.sections()
    ours = params.compute
    with replaced_file("reports/index.html") as partial:
        partial.write_text(
            page(
                "RankOps",
                f"Made with {source}; compute.device {ours.device}, {ours.threads} threads, precision "
                f"{ours.precision}. What stands under {LOCK!r} is the hash of a row's model: search dvc.lock for it, "
                "and you find the stage that trained it, with its code, params and data.",
                sections,
                links={"Experiments over seeds, once `make experiments` has run": "experiments/index.html"},
            )
        )


if __name__ == "__main__":
    run(main)
