"""Compare our metrics with those of search packages: `python -m studies.times.search_metrics`, a minute on one core.

One thousand queries have up to 100 documents with grades 0 to 3 and scores without ties. `apart` is the largest
difference over queries. CPU times are for all queries and one metric a call; `together` computes five metrics, which
the packages do in one call. Calls of the packages include reading their form of the data, whose making takes
`ms_to_convert`. The packages are ir_measures (with pytrec_eval) and ranx, both optional.
"""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from rankgrad import metrics
from rankgrad.io.results import Row, rows_of
from rankgrad.seeding import generator
from studies import kept
from studies.times.measuring import median_seconds

QUERIES, DOCUMENTS, GRADES, K = 1000, 100, 4, 10
REPEATS, LIMIT = 7, 20.0  # of each time, and most seconds
PACKAGES = ("ir_measures", "ranx")

Values = Callable[[], Tensor]  # the values of all queries
Nested = dict[str, dict[str, Any]]  # by query and document

TOGETHER = "five metrics together"
# Their names of our metrics.
THEIRS = {
    "ndcg_at_10, linear gain": ("nDCG@10", "ndcg@10"),
    "ndcg_at_10": (None, "ndcg_burges@10"),
    "average_precision": ("AP", "map"),
    "reciprocal_rank": ("RR", "mrr"),
    "precision_at_10": ("P@10", "precision@10"),
    "recall_at_10": ("R@10", "recall@10"),
}


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Return scores, grades, and whether there is a document (QUERIES, DOCUMENTS); each query has a relevant one."""
    draws = generator(0, "times", "search_metrics")
    scores = torch.randn(QUERIES, DOCUMENTS, dtype=torch.float64, generator=draws)
    grades = torch.randint(GRADES, scores.shape, generator=draws) * (torch.rand(scores.shape, generator=draws) < 0.2)
    grades[:, 0] = 1
    lengths = torch.randint(20, DOCUMENTS + 1, (QUERIES, 1), generator=draws)
    return scores, grades, torch.arange(DOCUMENTS) < lengths


def ours(scores: Tensor, grades: Tensor, is_there: Tensor) -> dict[str, Values]:
    labels = (grades > 0).long()
    return {
        "ndcg_at_10, linear gain": partial(metrics.ndcg, scores, grades, mask=is_there, k=K, gain="linear"),
        "ndcg_at_10": partial(metrics.ndcg, scores, grades, mask=is_there, k=K),
        "average_precision": partial(metrics.average_precision, scores, labels, mask=is_there),
        "reciprocal_rank": partial(metrics.reciprocal_rank, scores, labels, mask=is_there),
        "precision_at_10": partial(metrics.precision_at_k, scores, labels, mask=is_there, k=K),
        "recall_at_10": partial(metrics.recall_at_k, scores, labels, mask=is_there, k=K),
    }


def nested(values: Tensor, is_there: Tensor) -> Nested:
    """Return values by query and document, the form of both packages."""
    result: Nested = {}
    for query, (row, mask) in enumerate(zip(values.tolist(), is_there.tolist(), strict=True)):
        documents = zip(row, mask, strict=True)
        result[f"q{query:04}"] = {f"d{number}": value for number, (value, there) in enumerate(documents) if there}
    return result


def of_ir_measures(truth: Nested, run: Nested, *names: str) -> Values:
    """Return a call for the values of the first metric, which computes them all."""
    package: Any = import_module("ir_measures")
    measures = [package.parse_measure(name) for name in names]
    evaluator = package.evaluator(measures, truth)

    def values() -> Tensor:
        by_query = {(metric.measure, metric.query_id): metric.value for metric in evaluator.iter_calc(run)}
        return torch.tensor([by_query[measures[0], query] for query in truth], dtype=torch.float64)

    return values


def of_ranx(truth: Any, run: Any, *names: str) -> Values:
    """Return a call for the values of the first metric, which computes them all."""
    package: Any = import_module("ranx")
    options = {"return_mean": False, "make_comparable": False}

    def values() -> Tensor:
        if len(names) == 1:
            return torch.from_numpy(package.evaluate(truth, run, names[0], **options))
        return torch.from_numpy(package.evaluate(truth, run, list(names), **options)[names[0]])

    return values


def milliseconds(step: Callable[[], object]) -> float:
    step()  # compile
    return 1000 * median_seconds(step, clock=time.process_time, most=REPEATS, limit=LIMIT)


def main() -> None:
    """Measure all packages, and keep the results."""
    torch.set_num_threads(1)
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise SystemExit(f"{', '.join(missing)} missing: pip install ir-measures ranx, in an environment of its own")
    scores, grades, is_there = drawn()
    own = ours(scores, grades, is_there)
    rows: list[Row] = []
    for metric, values in own.items():
        rows += rows_of(metric, {"ms": milliseconds(values)})
    alike = [metric for metric, names in THEIRS.items() if all(names)]  # of both packages
    rows += rows_of(TOGETHER, {"ms": milliseconds(lambda: [own[metric]() for metric in alike])})

    truth, run = nested(grades, is_there), nested(scores, is_there)
    ranx: Any = import_module("ranx")
    conversions: dict[str, Callable[[], object]] = {
        "ir_measures": lambda: (nested(grades, is_there), nested(scores, is_there)),
        "ranx": lambda: (ranx.Qrels(nested(grades, is_there)), ranx.Run(nested(scores, is_there))),
    }
    for package, convert in conversions.items():
        rows += rows_of(package, {"ms_to_convert": milliseconds(convert)})
    objects = ranx.Qrels(truth), ranx.Run(run)
    firsts, seconds = zip(*(THEIRS[metric] for metric in alike), strict=True)
    together = {"ir_measures": of_ir_measures(truth, run, *map(str, firsts)), "ranx": of_ranx(*objects, *seconds)}
    for package, values in together.items():
        rows += rows_of(f"{TOGETHER}, {package}", {"ms": milliseconds(values)})
    for metric, (of_first, of_second) in THEIRS.items():
        calls = {"ranx": of_ranx(*objects, of_second)}
        if of_first:
            calls["ir_measures"] = of_ir_measures(truth, run, of_first)
        for package, values in calls.items():
            apart = (values() - own[metric]()).abs().max().item()
            figures = {"ms": milliseconds(values), "apart": apart}
            rows += rows_of(f"{metric}, {package}", figures)
            print(f"{metric}, {package}", figures, flush=True)
    params = {"queries": QUERIES, "documents": DOCUMENTS, "grades": GRADES}
    made_by = {"commit": kept.commit_of("src", "studies/times"), "params": params, "hashes": {}}
    kept.write("search_metrics", rows, made_by | {"machine": kept.machine()})


if __name__ == "__main__":
    main()
