"""What inputs are like, as a network takes them, and what it says of them: a number a row for each quantity."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from pipelines.ops.messages import first_line
from rankgrad import lookup
from rankgrad.datasets.tables.rows import Row, pieces
from rankgrad.inputs._vocabulary import Vocabulary
from rankgrad.models.label_ranker import pooled

__all__ = ["Measured", "measure"]

LAPLACE = torch.tensor([[[[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]]])


class Measured(NamedTuple):
    """Rows, measured.

    Attributes:
        inputs: quantities (n, ...) of what the network takes; of several frames or documents the mean.
        answers: quantities (n, ...) of what it says.
        embedding: its last features (n, size); of frames or documents the mean.
        words: of all texts.
    """

    inputs: pd.DataFrame
    answers: pd.DataFrame
    embedding: np.ndarray
    words: set[str]


@torch.inference_mode()
def measure(
    rows: Iterable[Row], network: Any, *, chosen: Collection[int], known: Collection[str] | None = None
) -> Measured:
    """Measure rows, in pieces, so that memory does not grow with their files.

    Args:
        rows: from `rankgrad.datasets.tables.rows.read`.
        network: of a task.
        chosen: numbers of the rows that are looked at, from 0 on.
        known: words of training texts; where they are given, the share of other words is a quantity of the answers: it
            is 0 of the training texts themselves.

    Raises:
        ValueError: a file or a row is not whole, or the network cannot take it; the message names it.
        FloatingPointError: an answer is not finite.
    """
    recipe, chosen = network.recipe, set(chosen)
    task, kind = lookup.find("tasks", recipe["task"])(), lookup.find("inputs", recipe["input"]["kind"])
    looked_at = pieces((row for number, row in enumerate(rows) if number in chosen), recipe)
    parts = [_of_piece(piece, network, task, kind, known) for piece in looked_at]
    inputs, answers, embeddings, words = zip(*parts, strict=True)
    return Measured(
        pd.concat(inputs, ignore_index=True),
        pd.concat(answers, ignore_index=True),
        np.concatenate(embeddings),
        set().union(*words),
    )


def _of_piece(piece: list[Row], network: Any, task: Any, kind: Any, known: Collection[str] | None) -> Measured:
    recipe = network.recipe
    asked, prepared = map(list, zip(*(_prepared(row, task, kind, recipe) for row in piece), strict=True))
    inputs = pd.DataFrame([_of_input(one, recipe) for one in prepared])
    embedding = _embedded(network, kind.gathered(prepared, recipe["input"]), prepared, piece[0].place)
    answers = pd.DataFrame([_of_answer(one, recipe) for one in _answered(task, network, asked, piece)])
    words = [_words(one) if kind.name == "text" else [] for one in prepared]
    if known is not None:
        answers["unknown words"] = [np.mean([word not in known for word in some]) for some in words]
    return Measured(inputs, answers, embedding, set().union(*words))


def _prepared(row: Row, task: Any, kind: Any, recipe: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return a row as it is asked, and its items as the network takes them."""
    try:
        if kind.name not in (asked := row.asked()):
            raise ValueError(f"a caption alone; expected {kind.name} in each row: captions are not compared")
        cells = asked[kind.name] if task.reads.lists else [asked[kind.name]]
        return asked, kind.prepared(cells, recipe["input"], where=row.place)
    except (OSError, RuntimeError, IndexError, TypeError, ValueError) as error:
        message = first_line(error)
        raise ValueError(message if message.startswith(row.place) else f"{row.place}: {message}") from error


def _of_input(items: Any, recipe: Mapping[str, Any]) -> dict[str, float]:
    """Return the quantities of one row, from its items as the network takes them."""
    match recipe["input"]["kind"]:
        case "features":
            names = recipe["input"].get("names") or [f"feature {number}" for number in range(items.shape[1])]
            return dict(zip(names, items.double().mean(0).tolist(), strict=True))
        case "text":
            return {
                "characters": float(np.mean([len(text) for text in items])),
                "words": float(np.mean([len(Vocabulary.split(text)) for text in items])),
            }
        case _:
            return {name: value.mean().item() for name, value in _of_pixels(items).items()}


def _of_pixels(images: Tensor) -> dict[str, Tensor]:
    """Of images (n, colors, height, width) uint8, each (n,), in shares of white; ink is what is over half."""
    gray = images.float().mean(1, keepdim=True) / 255
    edges = conv2d(pad(gray, (1, 1, 1, 1), mode="replicate"), LAPLACE)
    return {
        "brightness": gray.mean((1, 2, 3)),
        "contrast": gray.std((1, 2, 3), correction=0),
        "ink": (gray > 0.5).float().mean((1, 2, 3)),
        "sharpness": edges.std((1, 2, 3), correction=0),
    }


def _words(texts: list[str]) -> list[str]:
    return [word for text in texts for word in Vocabulary.split(text)]


def _embedded(network: Any, inputs: Any, prepared: list[Any], place: str) -> np.ndarray:
    """Return the features (n, size) from which a network scores each row, the mean over its items."""
    scorer, device = getattr(network, "scorer", network), next(network.parameters()).device
    try:
        parts = [pooled(scorer.embed(part.to(device))).float() for part in inputs.ready(scorer).parts()]
    except (RuntimeError, IndexError) as error:  # PyTorch's, where pooling leaves nothing
        raise ValueError(f"{place}: the network cannot take it ({first_line(error)})") from error
    items = torch.cat(parts).flatten(1).cpu()
    return np.stack([part.mean(0).numpy() for part in items.split([len(one) for one in prepared])])


def _answered(task: Any, network: Any, asked: list[dict[str, Any]], piece: list[Row]) -> list[dict[str, Any]]:
    try:
        answers = task.respond(network, asked)
    except FloatingPointError as error:
        raise FloatingPointError(
            f"{piece[0].place} and the next {len(piece) - 1}: the model's answers are not finite; name another model"
        ) from error
    for row, answer in zip(piece, answers, strict=True):
        if not all(np.isfinite(value).all() for name, value in answer.items() if name in ("score", "scores")):
            raise FloatingPointError(f"{row.place}: the model's scores are not finite; name another model")
    return answers


def _of_answer(answer: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, float]:
    """Return the quantities of an answer: its score, or that of each class, or of the documents the extremes.

    >>> answer = {"labels": ["cat"], "label_ranks": [1, 0], "scores": [2.0, -1.0]}
    >>> _of_answer(answer, {"task": "label_ranking", "classes": ["cat", "dog"]})
    {'score cat': 2.0, 'score dog': -1.0, 'highest score': 2.0, 'labels selected': 1}
    """
    found: dict[str, float] = {}
    if "score" in answer:
        found["score"] = answer["score"]
    if scores := answer.get("scores"):
        if recipe["task"] == "query_ranking":  # of as many documents as there are
            return {"highest score": max(scores), "lowest score": min(scores), "documents": len(scores)}
        names = recipe.get("classes") or range(len(scores))
        found |= {f"score {name}": score for name, score in zip(names, scores, strict=True)}
        found["highest score"] = max(scores)
    if "label_ranks" in answer:
        found["labels selected"] = len(answer["labels"])
    return found
