"""Write the gradient of each loss at five scores to docs/gradients.csv: `python -m tools.gradients`.

The website draws its pictures of gradients from this file, so building it does not require PyTorch.
"""

import csv
import inspect
import io
from pathlib import Path

import torch

from rankgrad import losses

PATH = Path("docs/gradients.csv")
SCORES = (2.0, 0.3, 1.0, 0.6, -0.5)
# Targets by the name of the truth. The second score is too low for all of them.
TRUTHS = {
    "target": (4, 3, 1, 2, 0),
    "labels": (1, 1, 0, 0, 0),
    "label_ranks": (3, 2, 1, 0, 0),
    "positives": (0, 1, 0, 0, 0),
}


def text() -> str:
    """Return one CSV row per score: loss, its value, the name of the truth, score, truth, and gradient."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["loss", "value", "kind", "score", "truth", "gradient"])
    for name in losses.__all__:
        loss = getattr(losses, name)
        kind = list(inspect.signature(loss).parameters)[1]
        if kind not in TRUTHS:
            continue
        scores = torch.tensor([SCORES], dtype=torch.float64, requires_grad=True)
        value = loss(scores, torch.tensor([TRUTHS[kind]]))
        (gradient,) = torch.autograd.grad(value, scores)
        for row in zip(SCORES, TRUTHS[kind], gradient[0].tolist(), strict=True):
            score, truth, slope = row
            writer.writerow([name, f"{value.item():.3f}", kind, score, truth, round(slope, 3) + 0.0])
    return file.getvalue()


if __name__ == "__main__":
    PATH.write_text(text())
