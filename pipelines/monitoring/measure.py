"""What inputs are like, as a network takes them, and what it says of them: a number a row for each quantity."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from pipelines.ops.messages import first_line
from rankgrad import lookup
from rankgrad.datasets.tables.rows import Row, pieces
from rankgrad.inputs._base import type_of
from rankgrad.inputs._vocabulary import Vocabulary
from rankgrad.models.label_ranker import pooled

__all__ = ["Measured", "measure"]


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
        known: words of training texts; where they are given, the fraction of other words is a quantity of the answers:
            it is 0 of the training texts themselves.

    Raises:
        ValueError: a file or a row is not whole, or the network cannot answer it; the message names it.
    """
    recipe, numbers = network.recipe, set(chosen)
    looked_at = pieces((row for number, row in enumerate(rows) if number in numbers), recipe)
    parts = [_of_piece(piece, network, known) for piece in looked_at]
    inputs, answers, embeddings, words = zip(*parts, strict=True)
    return Measured(
        pd.concat(inputs, ignore_index=True),
        pd.concat(answers, ignore_index=True),
        np.concatenate(embeddings),
        set().union(*words),
    )


def _of_piece(piece: list[Row], network: Any, known: Collection[str] | None) -> Measured:
    task, about = lookup.find("tasks", network.recipe["task"])(), network.recipe["input"]
    input_type = type_of(about)
    rows, prepared = [], []
    for row in piece:
        checked = _checked(row, task, network.recipe)
        cells = checked[input_type.name] if task.reads.lists else [checked[input_type.name]]
        try:
            prepared.append(input_type.prepared(cells, about, where=row.place))
        except (OSError, RuntimeError, ValueError) as error:
            raise _of_place(row.place, error) from error
        rows.append(checked)
    inputs = pd.DataFrame([input_type.quantities(items, about) for items in prepared])
    try:
        embedding = _embedded(network, input_type.gathered(prepared, about), [len(items) for items in prepared])
        answers = task.answered(network, rows)
    except (RuntimeError, IndexError, ValueError) as error:  # PyTorch's, where pooling leaves nothing
        raise ValueError(
            f"{piece[0].place} and the next {len(piece) - 1}: the network cannot answer ({first_line(error)}); name "
            "another model"
        ) from error
    quantities = pd.DataFrame([_of_answer(answer, task, network.recipe) for answer in answers])
    words = [_words(input_type.texts(items)) for items in prepared]
    if known is not None:
        quantities["unknown words"] = [np.mean([word not in known for word in some]) for some in words]
    return Measured(inputs, quantities, embedding, set().union(*words))


def _checked(row: Row, task: Any, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the task answers it."""
    try:
        [checked] = task.checked(recipe, [row.asked()])
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise _of_place(row.place, error) from error
    if (name := type_of(recipe["input"]).name) not in checked:
        raise ValueError(f"{row.place}: a caption alone; expected {name} in each row: captions are not compared")
    return checked


def _of_place(place: str, error: Exception) -> ValueError:
    message = first_line(error).removeprefix("row 0").lstrip(":, ")
    return ValueError(message if message.startswith(place) else f"{place}: {message}")


def _words(texts: list[str]) -> list[str]:
    return [word for text in texts for word in Vocabulary.split(text)]


def _embedded(network: Any, inputs: Any, counts: list[int]) -> np.ndarray:
    """Return the features (n, size) from which a network scores each row, the mean over its items."""
    scorer, device = getattr(network, "scorer", network), next(network.parameters()).device
    parts = [pooled(scorer.embed(part.to(device))).float() for part in inputs.ready(scorer).parts()]
    items = torch.cat(parts).flatten(1).cpu()
    return np.stack([part.mean(0).numpy() for part in items.split(counts)])


def _of_answer(answer: Mapping[str, Any], task: Any, recipe: Mapping[str, Any]) -> dict[str, float]:
    """Return the quantities of an answer: its score, or that of each class, or of the documents the extremes.

    >>> answer = {"labels": ["cat"], "label_ranks": [1, 0], "scores": [2.0, -1.0]}
    >>> _of_answer(answer, lookup.find("tasks", "label_ranking")(), {"classes": ["cat", "dog"]})
    {'score cat': 2.0, 'score dog': -1.0, 'highest score': 2.0, 'labels selected': 1}
    """
    quantities: dict[str, float] = {}
    if "score" in answer:
        quantities["score"] = answer["score"]
    if scores := answer.get("scores"):
        if task.reads.lists:  # of as many documents as there are
            return {"highest score": max(scores), "lowest score": min(scores), "documents": len(scores)}
        names = recipe.get("classes") or range(len(scores))
        quantities |= {f"score {name}": score for name, score in zip(names, scores, strict=True)}
        quantities["highest score"] = max(scores)
    if "label_ranks" in answer:
        quantities["labels selected"] = len(answer["labels"])
    return quantities
