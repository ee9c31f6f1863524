"""Measure inputs as a network takes them, and its predictions for them: one number per row for each quantity."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pipelines.ops.messages import first_line
from pipelines.serving.request_log import CAPTION, input_compared
from rankgrad import lookup
from rankgrad.datasets.tables.rows import Row, pieces
from rankgrad.inputs import type_of
from rankgrad.models.label_ranker import pooled
from rankgrad.plain_text import words_of
from rankgrad.tasks import check_answer

__all__ = ["Inputs", "Measured", "Piece", "measure", "prepared"]


class Inputs(NamedTuple):
    """Measurements of inputs, without a network.

    Attributes:
        quantities: quantities of each row's prepared input (n, ...); means over frames or documents.
        words: the words in all texts.
        lowest, highest: the extremes of each feature over a query's documents (n, ...); otherwise the quantities.
    """

    quantities: pd.DataFrame
    words: set[str]
    lowest: pd.DataFrame
    highest: pd.DataFrame


class Measured(NamedTuple):
    """Measurements of rows, and of a network's predictions for them.

    Attributes:
        inputs: the rows without a network.
        answers: quantities of each row's prediction (n, ...).
        embedding: the network's last features (n, size); means over frames or documents.
    """

    inputs: Inputs
    answers: pd.DataFrame
    embedding: np.ndarray


class Piece(NamedTuple):
    """Rows that go through a network together.

    Attributes:
        place: where the first row is, for messages.
        rows: the prepared items of each row.
        inputs: their measurements.
    """

    place: str
    rows: list[Any]
    inputs: Inputs


def measure(pieces: Iterable[Piece], network: Any, *, known: Collection[str] | None = None) -> Measured:
    """Measure rows and a network's predictions for them in pieces, so that memory does not grow with the file.

    Args:
        pieces: rows from `prepared`, with the network's recipe.
        network: a task's network.
        known: words of the training texts; if given, the fraction of other words is a quantity of the answers. It is 0
            for the training texts themselves.

    Raises:
        ValueError: a file or a row is invalid, or the network cannot predict it; the message names it.
    """
    measured = [(*piece.inputs, *_answers(piece, network, known)) for piece in pieces]
    quantities, words, lowest, highest, answers, embeddings = zip(*measured, strict=True)
    quantities, lowest, highest, answers = (
        pd.concat(frames, ignore_index=True) for frames in (quantities, lowest, highest, answers)
    )
    return Measured(Inputs(quantities, set().union(*words), lowest, highest), answers, np.concatenate(embeddings))


def prepared(rows: Iterable[Row], recipe: Mapping[str, Any], *, chosen: Collection[int]) -> Iterator[Piece]:
    """Yield rows in the form that a recipe's network takes, with their measurements.

    Args:
        rows: rows from `rankgrad.datasets.tables.rows.read`.
        recipe: the recipe of a task's network.
        chosen: numbers of the rows to measure, from 0.

    Raises:
        ValueError: a file or a row is invalid; the message names it.
    """
    task, about, numbers = lookup.find("tasks", recipe["task"])(), recipe["input"], set(chosen)
    input_type, name = type_of(about), input_compared(recipe)
    for piece in pieces((row for number, row in enumerate(rows) if number in numbers), recipe):
        items = []
        for row in piece:
            try:
                [checked] = task.checked(recipe, [row.asked()])
                if name not in checked:
                    raise ValueError(f"no {name}, expected one, by which rows are compared")
                cells = checked[name] if task.reads.lists else [checked[name]]
                items.append(input_type.prepared(cells, about, where=row.place))
            except (OSError, RuntimeError, TypeError, ValueError) as error:
                message = first_line(error).removeprefix("row 0").lstrip(":, ")
                named = message if message.startswith(row.place) else f"{row.place}: {message}"
                raise ValueError(f"{named}; correct the row, or leave it out, to compare the others") from error
        yield Piece(piece[0].place, items, _inputs(items, recipe))


def _inputs(rows: list[Any], recipe: Mapping[str, Any]) -> Inputs:
    about, words = recipe["input"], set[str]()
    input_type = type_of(about)
    for items in rows:
        words |= {*_words(input_type.texts(items))}
    quantities = pd.DataFrame(
        [input_type.quantities(items, about) | input_type.unknown(items, about) for items in rows]
    )
    if not (input_type.vectors and lookup.find("tasks", recipe["task"]).reads.lists):
        return Inputs(quantities, words, quantities, quantities)
    lowest = [input_type.quantities(items.amin(0, keepdim=True), about) for items in rows]
    highest = [input_type.quantities(items.amax(0, keepdim=True), about) for items in rows]
    return Inputs(quantities, words, pd.DataFrame(lowest), pd.DataFrame(highest))


@torch.inference_mode()
def _answers(piece: Piece, network: Any, known: Collection[str] | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the quantities and the embedding of a piece, which goes through the network once."""
    task, about = lookup.find("tasks", network.recipe["task"])(), network.recipe["input"]
    input_type, counts = type_of(about), [len(items) for items in piece.rows]
    try:
        with _embedding_of(network) as parts:
            if input_compared(network.recipe) == CAPTION:
                queries = [*chain.from_iterable(piece.rows)]
                answers = [{"embedding": embedding} for embedding in task.embed_captions(network, queries).tolist()]
            else:
                answers = task.answers(network, input_type.gathered(piece.rows, about), torch.tensor(counts))
        for number, answer in enumerate(answers):
            check_answer(answer, number)
    except (RuntimeError, IndexError, ValueError, FloatingPointError) as error:  # pooling may leave nothing
        raise ValueError(
            f"{piece.place} and the next {len(piece.rows) - 1} rows: the network cannot predict them "
            f"({first_line(error)}); name another model"
        ) from error
    embedding = np.stack([items.mean(0).numpy() for items in torch.cat(parts).split(counts)])
    quantities = pd.DataFrame([_of_answer(answer, task, network.recipe) for answer in answers])
    if known is not None:
        unknown = []
        for items in piece.rows:
            words = _words(input_type.texts(items))  # none in a text of marks alone
            unknown.append(sum(word not in known for word in words) / max(1, len(words)))
        quantities["unknown words"] = unknown
    return quantities, embedding


@contextmanager
def _embedding_of(network: Any) -> Generator[list[Tensor]]:
    """Yield a list that collects the features (n, size) from which a network scores items, while it predicts."""
    encoder = "texts" if input_compared(network.recipe) == CAPTION else "items"
    scorer = getattr(network, "scorer", getattr(network, encoder, network))
    views = (getattr(network, "views", None) or {"count": 1})["count"]
    parts: list[Tensor] = []
    batches = count()

    def keep(backbone: Any, inputs: Any, features: Tensor) -> None:
        if next(batches) % views == 0:  # the first view of each batch is the unchanged items
            parts.append(pooled(scorer.head.pool(features)).float().flatten(1).cpu())

    handle = scorer.backbone.register_forward_hook(keep)
    try:
        yield parts
    finally:
        handle.remove()


def _words(texts: list[str]) -> list[str]:
    return [word for text in texts for word in words_of(text)]


def _of_answer(answer: Mapping[str, Any], task: Any, recipe: Mapping[str, Any]) -> dict[str, float]:
    """Return the quantities of an answer: its score, the score of each class, or the extremes over documents.

    >>> answer = {"labels": ["cat"], "label_ranks": [1, 0], "scores": [2.0, -1.0]}
    >>> _of_answer(answer, lookup.find("tasks", "label_ranking")(), {"classes": ["cat", "dog"]})
    {'score cat': 2.0, 'score dog': -1.0, 'highest score': 2.0, 'labels selected': 1}
    """
    quantities: dict[str, float] = {}
    if "score" in answer:
        quantities["score"] = answer["score"]
    if scores := answer.get("scores"):
        if task.reads.lists:  # the number of documents varies
            return {"highest score": max(scores), "lowest score": min(scores), "documents": len(scores)}
        names = recipe.get("classes") or range(len(scores))
        quantities |= {f"score {name}": score for name, score in zip(names, scores, strict=True)}
        quantities["highest score"] = max(scores)
    if "label_ranks" in answer:
        quantities["labels selected"] = len(answer["labels"])
    return quantities
