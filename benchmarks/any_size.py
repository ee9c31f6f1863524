"""What losses of any size buy, on made data: all pairs of 1,000 labels, and batches as large as recall needs.

Labels: a row has ten of 1,000 in order. RLSEP with all pairs learns beside RLSEP with t random pairs of each row, for
the same seconds of processor time, and for the same number of steps; NDCG@10 on new rows. Retrieval: recall at 1 as the
loss, in batches of different size, in the memory of 64 (`in_chunks`), for equally many examples; R@1 among 4,096 new
pairs. Mean and 95 % interval over seeds, the best of three learning rates on the first.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn

from benchmarks.results import half_width, write
from rankops.losses import recall_at_k, rlsep
from rankops.metrics import ndcg, recall
from rankops.training.large_batch import in_chunks

SEEDS, RATES = 3, (1e-3, 3e-3, 1e-2)
LABELS, PRESENT, FEATURES, ROWS, SECONDS, STEPS = 1_000, 10, 64, 4_096, 5.0, 400
BATCHES, EXAMPLES, NOISE = (32, 128, 512, 2_048), 32_768, 0.35


def network(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, outputs))


def labeled(rows: int, draws: torch.Generator, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return inputs, and label ranks: the ten labels of the largest noisy scores, the largest first."""
    inputs = torch.randn(rows, FEATURES, generator=draws)
    scores = inputs @ truth + torch.randn(rows, LABELS, generator=draws)
    first = scores.topk(PRESENT).indices
    return inputs, torch.zeros(rows, LABELS).scatter(1, first, torch.arange(PRESENT, 0, -1.0).expand(rows, -1))


def some_pairs(scores: Tensor, ranks: Tensor, count: int, draws: torch.Generator) -> Tensor:
    """Return RLSEP over `count` random pairs of a row, drawn in O(count): a present label, and any one below it."""
    present = ranks.topk(PRESENT).indices
    upper = present.gather(1, torch.randint(PRESENT, (len(scores), count), generator=draws))
    lower = torch.randint(LABELS, upper.shape, generator=draws)
    above = scores.gather(1, lower) - scores.gather(1, upper)
    above = above.masked_fill(ranks.gather(1, upper) <= ranks.gather(1, lower), -torch.inf)
    return nn.functional.pad(above, (1, 0)).logsumexp(1).mean()


def labels(seed: int, rate: float, *, pairs: int | None, steps: int | None) -> float:
    """Train with t pairs, or all, for so many steps or else seconds; return NDCG@10 on new rows."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    truth = torch.randn(FEATURES, LABELS, generator=draws) / 4
    (inputs, ranks), (new, goal) = labeled(ROWS, draws, truth), labeled(1_024, draws, truth)
    model = network(LABELS)
    optimizer, stop, step = torch.optim.Adam(model.parameters(), lr=rate), time.process_time() + SECONDS, 0
    while time.process_time() < stop if steps is None else step < steps:
        step += 1
        rows = torch.randint(ROWS, (64,), generator=draws)
        optimizer.zero_grad()
        scores, wanted = model(inputs[rows]), ranks[rows]
        loss = rlsep(scores, wanted) if pairs is None else some_pairs(scores, wanted, pairs, draws)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return ndcg(model(new), goal, k=10, gain="linear").mean().item()


def retrieval(seed: int, rate: float, *, batch: int) -> float:
    """Train on so many pairs of views in batches of one size; return R@1 of new pairs."""
    torch.manual_seed(seed)
    draws = torch.Generator().manual_seed(seed)
    mixing = torch.randn(16, FEATURES, generator=draws)

    def pairs(count: int) -> Tensor:
        """Return two noisy views of what is the same below, (count, 2, features)."""
        same = torch.randn(count, 1, 16, generator=draws).expand(-1, 2, -1)
        return (same + NOISE * torch.randn(count, 2, 16, generator=draws)).tanh() @ mixing

    model = network(32)
    embed: Callable[[Tensor], Tensor] = lambda views: nn.functional.normalize(  # noqa: E731
        in_chunks(model, views.flatten(0, 1), chunk=64).unflatten(0, (-1, 2)), dim=-1
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(EXAMPLES // batch):
        one, other = embed(pairs(batch)).unbind(1)
        optimizer.zero_grad()
        recall_at_k(one @ other.T, torch.eye(batch, dtype=torch.bool)).backward()
        optimizer.step()
    with torch.no_grad():
        one, other = embed(pairs(4_096)).unbind(1)
        return recall(one @ other.T, torch.eye(4_096, dtype=torch.bool), k=1).item()


def over_seeds(trained: Callable[[int, float], float]) -> dict[str, float]:
    rate = max(RATES, key=lambda rate: trained(0, rate))
    values = [trained(seed, rate) for seed in range(1, SEEDS + 1)]
    return {"mean": sum(values) / SEEDS, "±": half_width(values), "rate": rate}


def main() -> None:
    figures = {}
    for steps, pairs in product((None, STEPS), (None, 10, 100, 1_000)):
        limit, several = "time" if steps is None else "steps", "all" if pairs is None else f"{pairs:,}"
        row = f"NDCG@10 at equal {limit}, {several} pairs"
        figures[row] = over_seeds(partial(labels, pairs=pairs, steps=steps))
        print(row, figures[row], flush=True)
    for batch in BATCHES:
        row = f"R@1, batch of {batch:,}"
        figures[row] = over_seeds(partial(retrieval, batch=batch))
        print(row, figures[row], flush=True)
    write("any_size", figures)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
