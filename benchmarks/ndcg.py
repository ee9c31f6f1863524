"""NDCG of 8,000 queries with 40 documents each, beside torchmetrics: ratios of times in one run, and the values.

torchmetrics is an optional package: `pip install torchmetrics`.
"""

import sys
from functools import partial

import torch
from torch import Tensor

from benchmarks.results import beside, write
from rankops.metrics.ndcg import ndcg

QUERIES, DOCUMENTS, GRADES, ROUNDS = 8_000, 40, 5, 3


def main() -> None:
    try:
        from torchmetrics.functional.retrieval import retrieval_normalized_dcg
        from torchmetrics.retrieval import RetrievalNormalizedDCG
    except ImportError as error:
        sys.exit(f"NDCG beside torchmetrics left out: {error}. `pip install torchmetrics`")

    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(QUERIES, DOCUMENTS, generator=generator)
    target = torch.randint(GRADES, scores.shape, generator=generator)
    queries = torch.arange(QUERIES).repeat_interleave(DOCUMENTS)

    def theirs(k: int | None) -> Tensor:
        metric = RetrievalNormalizedDCG(top_k=k)
        metric.update(scores.flatten(), target.flatten(), indexes=queries)
        return metric.compute()

    figures = {}
    for tied, name in ((False, "no ties"), (True, "ties")):
        if tied:
            scores = (scores * 4).round()
        for k in (None, 10):
            ours = partial(ndcg, scores, target, k=k, gain="linear")
            each = [retrieval_normalized_dcg(*pair, top_k=k) for pair in zip(scores, target, strict=True)]
            figures[f"NDCG{'' if k is None else f'@{k}'}, {name}"] = {
                **beside({"rankops": ours, "torchmetrics": partial(theirs, k)}, rounds=ROUNDS),
                "largest difference": (ours() - torch.stack(each)).abs().max().item(),
            }
    write("ndcg", figures)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
