"""The report: what it reads, what the page and the tables of README show, and what it refuses."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from pipelines.config import check_shapes
from pipelines.reporting.archive import kept_results
from pipelines.reporting.plots import places
from pipelines.reporting.results import history, number, read_comparisons, read_runs, read_sorters
from pipelines.stages import report
from rankops.io.parquet import encode_images
from rankops.lookup import find
from tools import readme

TRAINED = {"seeds": [1, 2], "best": 2, "validation": {"1": 0.4, "2": 0.5}, "setting": {"training.lr": 0.003}, "tried": []}
ROOT = Path(__file__).parents[1]
LABELS, TEST = 10, 14
RUNS = {  # task, dataset, loss, sorter, main metric
    "label_ranking-cross_entropy": ("label_ranking", "ranked_mnist", "cross_entropy", "none", 0.887),
    "label_ranking-rlsep": ("label_ranking", "ranked_mnist", "rlsep", "none", 0.975),
    "memorability-mse": ("memorability", "clips", "mse", "none", 0.776),
    "memorability-spearman-laplace": ("memorability", "clips", "spearman", "laplace", 0.801),
    "multilabel-multilabel_soft_margin": ("multilabel", "long_tailed_mnist", "multilabel_soft_margin", "none", 0.922),
    "retrieval-hard_negative_triplet": ("retrieval", "captions", "hard_negative_triplet", "none", 0.270),
}


def run_block(task, dataset, loss, sorter):
    return {
        "task": task, "dataset": dataset, "model": {"name": "convnet"}, "start": "models/runs/none",
        "loss": {"name": loss}, "sorter": sorter, "auxiliary": {"name": "none"}, "seeds": [1, 2],
    }  # fmt: skip


@pytest.fixture
def values():
    """Params of six runs of four tasks, two of them compared."""
    optimizer = {"name": "AdamW", "args": {"lr": 0.01}}
    training = {"vectors": "stored", "batch_size": 8, "epochs": 2, "patience": 2, "optimizer": optimizer, "schedule": {}}
    rows = {"train": 5000, "val": 10, "test": TEST, "gate": 10}
    return {
        "compute": {"threads": 1, "device": "cpu", "precision": "no", "compile": False},
        "jobs": {"count": 1},
        "data": {"snapshot": 1, "growth": 0.1},
        "digits": {"source": "bundled", "seed": 1},
        "score_vectors": {"length": 8, "rows": {"train": 10, "val": 10, "test": 10}, "seed": 1},
        "datasets": {name: {"name": name, "rows": rows, "seed": 1, "canvas": 16}
                     for name in ("ranked_mnist", "clips", "long_tailed_mnist", "captions")},
        "real_data": {},
        "sorters": {"lstm": {"name": "lstm", "training": training}, "laplace": {"name": "laplace"}},
        "benchmark_sorters": {"resamples": 10},
        "training": {},
        "runs": {name: run_block(*options[:4]) for name, options in RUNS.items()},
        "comparisons": {
            "memorability": {"question": "Does training on Spearman pay?", "metric": "spearman",
                             "baseline": "memorability-mse", "runs": ["memorability-spearman-laplace"]},
        },
        "evaluate": {"resamples": 10},
        "gate": {"resamples": 10, "confidence": 0.95, "minimum_gain": 0.0, "tolerance": 0.0, "judged": {}},
    }  # fmt: skip


def write(path, content):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def leaf(value):
    return {"value": value, "low": value - 0.02, "high": value + 0.02, "seeds": {"1": value - 0.01, "2": value + 0.01}}


def nested(names, value):
    result = {}
    for place, name in enumerate(names):
        *parents, last = name.split(".")
        block = result
        for parent in parents:
            block = block.setdefault(parent, {})
        block[last] = leaf(value + 0.001 * place)
    return result


def predictions(task, draws):
    """Return what both seeds of a run predict, with the truth."""
    ranks = [draws.permutation([3, 2, 1] + [0] * (LABELS - 3)) for _ in range(TEST)]
    vectors = draws.normal(size=(TEST, 4))
    columns = {
        "label_ranking": {"true_label_ranks": ranks, "label_ranks": [np.roll(one, place % 2) for place, one in enumerate(ranks)]},
        "memorability": {"score": draws.random(TEST), "target": draws.random(TEST)},
        "multilabel": {"labels": [row > 0 for row in ranks]},
        "retrieval": {"image_embedding": list(vectors), "text_embeddings": [[vector.tolist()] * 5 for vector in vectors],
                      "captions": [[f"{place} <b>of 5"] * 5 for place in range(TEST)]},
    }[task]  # fmt: skip
    return pa.table({"id": [*range(TEST)] * 2, "seed": [1] * TEST + [2] * TEST} | {
        name: [one.tolist() if isinstance(one, np.ndarray) else one for one in column] * 2 for name, column in columns.items()
    })  # fmt: skip


def write_run(name, task, value, draws):
    metrics = nested([metric.name for metric in find("tasks", task).metrics], value)
    if task == "multilabel":
        metrics["average_precision"] = {str(label): leaf(0.5) for label in range(LABELS)}
    write(f"metrics/runs/{name}.json", metrics)
    Path("predictions").mkdir(exist_ok=True)
    pq.write_table(predictions(task, draws), f"predictions/{name}.parquet")
    write(f"models/runs/{name}/run.json", TRAINED)
    for seed in (1, 2):
        lines = [f"{phase},{epoch},{1 / epoch},{0.1 * epoch},0.01,1" for phase in ("probe", "finetune") for epoch in (1, 2)]
        write(f"models/runs/{name}/seed{seed}/history.csv", "\n".join(["phase,epoch,loss,rank,learning_rate,best", *lines]))


@pytest.fixture
def project(tmp_path, monkeypatch, values):
    """A folder with the outputs of all stages before the report."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    write("data/digits/manifest.json", {"source": "bundled"})
    images = encode_images(draws.integers(0, 255, (TEST, 16, 16), dtype=np.uint8), threads=1)
    for dataset in ("ranked_mnist", "captions"):
        Path(f"data/{dataset}").mkdir()
        pq.write_table(pa.table({"image": images}), f"data/{dataset}/test.parquet")
    for name, (task, _, _, _, value) in RUNS.items():
        write_run(name, task, value, draws)
    result = {"value": 0.801, "difference": {"value": 0.025, "low": 0.01, "high": 0.04}, "p": 0.0004, "seeds": 2}
    comparison = {name: values["comparisons"]["memorability"][name] for name in ("question", "metric", "baseline")}
    write("metrics/comparisons/memorability.json", comparison | {"runs": {"memorability-spearman-laplace": result}})
    for name in ("lstm", "laplace"):
        write(f"metrics/sorters/{name}.json", {
            "l1": {"value": 0.02041, "low": 0.02, "high": 0.021}, "l1_by_kind": {"uniform": 0.02, "normal": 0.03},
            "exact_ranks": 0.5, "gradient": {"vanishing": 0.0, "wrong_signs_of_others": 0.3}, "length": 8, "parameters": 1409,
        })  # fmt: skip
    write("models/sorters/lstm/history.csv", "epoch,loss,l1,learning_rate,best\n1,0.3,0.2,0.01,1\n2,0.2,0.1,0.01,1\n")
    Path("models/sorters/laplace").mkdir()
    shutil.copytree(ROOT / "results/paper", "results/paper")
    return tmp_path


class Page(HTMLParser):
    """The rows of each table, the addresses that the page asks for, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.addresses, self.words, self.tags = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value.partition(" ")[0] for name, value in attributes if name in ("src", "srcset", "href")]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data):
        self.words.append(data)
        if self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] = " ".join([*self.tables[-1][-1][-1].split(), *data.split()])


def page_of(values):
    report.main(check_shapes(values))
    return Page(Path("reports/index.html").read_text())


def row_of(page, start):
    (row,) = [row for table in page.tables for row in table if row[0] == start]
    return row
