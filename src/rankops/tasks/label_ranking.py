"""Multi-label ranking: which labels an image has, in order of importance (RLSEP)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn

from rankops.checks import check_finite, check_scores
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import build, load_model, save_model
from rankops.io.parquet import as_batch, as_lists, decode_images, matrix, read_table
from rankops.metrics.dense_ranks import dense_ranks
from rankops.metrics.evaluation import Figures
from rankops.metrics.label_ranking import ranked, unranked
from rankops.models.threshold_network import ThresholdNetwork
from rankops.training.augmentation import views, warped
from rankops.training.loop import Epoch, batch_count, compute, fit, random_batches
from rankops.training.objective import Criterion

__all__ = ["LabelRanker", "figures", "label_ranks_of", "load", "load_split", "predictions", "save", "train"]

JUDGED_BY = "accuracy"  # of the validation split's pairs, unless the params say otherwise
VIEWS = "views.json"
HISTORIES = {"scorer": "history.csv", "thresholds": "thresholds_history.csv"}


@dataclass(frozen=True)
class LabelRanker:
    """A scoring network f and a threshold network g on its embedding; both on one device, in evaluation mode.

    Attributes:
        scorer, thresholds: f and g.
        views: None, or the options of `rankops.training.augmentation.views`: scores and thresholds are means over so many views
            of each image. What is trained and validated sees each image once.
    """

    scorer: nn.Module
    thresholds: ThresholdNetwork
    views: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self._views_of(torch.empty(0, 1, 1, 1, dtype=torch.uint8))  # options that are none are refused at once

    def _views_of(self, images: Tensor) -> Iterator[Tensor]:
        return views(images, **self.views or {"count": 1})

    @torch.inference_mode()
    def __call__(self, images: Tensor, *, batch_size: int = 256) -> tuple[Tensor, Tensor]:
        """Scores (n, K) and thresholds (n, K) of images (n, [3,] height, width) uint8, on any device; on the CPU."""
        device = next(self.scorer.parameters()).device
        results = []
        for batch in as_batch(images).split(batch_size):
            embeddings = map(self.scorer.embed, self._views_of(batch.to(device)))
            both = [torch.stack([self.scorer.head(one), self.thresholds(one)]).float() for one in embeddings]
            results.append(torch.stack(both).mean(0).cpu())
        scores, thresholds = torch.cat(results, dim=1)
        return scores, thresholds


def load_split(folder: str | Path, split: str, *, threads: int) -> tuple[Tensor, Tensor]:
    """Images (n, [3,] height, width) uint8 and label ranks (n, K) of a split.

    Raises:
        FileNotFoundError, ValueError: the file is missing or corrupt, or an image is.
    """
    path = Path(folder) / f"{split}.parquet"
    read = read_table(path, ["image", "label_ranks"])
    images = torch.from_numpy(decode_images(read["image"], path=path, threads=threads))
    return images, matrix(read, "label_ranks", path=path)


def train(
    train_split: tuple[Tensor, Tensor],
    val_split: tuple[Tensor, Tensor],
    *,
    model: dict[str, Any],
    loss: dict[str, Any],
    training: dict[str, Any],
    seed: int,
    sorter: nn.Module | None = None,
    beside: dict[str, Any] | None = None,
    fresh: Callable[[int, torch.Generator], tuple[Tensor, Tensor]] | None = None,
    device: str = "auto",
    precision: str = "no",
    checkpoint: Path | None = None,
    name: str = "label_ranking",
) -> Iterator[tuple[str, Epoch, LabelRanker | None]]:
    """Trains the scoring network with a ranking loss, then the threshold network on its frozen embedding.

    Args:
        train_split, val_split: as from `load_split`; moved to the device whole.
        model, loss: `name` and `args`, as in the params.
        training: `scorer`, the options of the scoring network's training: `batch_size`; `shift`, and optionally `zoom`
            and `rotation`, see `rankops.training.augmentation.warped`; `epochs`, `patience`, `optimizer`, `schedule`, and
            optionally `average`, see `rankops.training.loop.fit`; optionally `judged_by`, the validation figure that decides
            on the best epoch, `accuracy` (of pairs) or `exact_match` (0-1); and `thresholds`, the same of the
            threshold network, with `hidden`, without the augmentation and what is optional. Optionally `views`, over
            which the trained networks average, see `LabelRanker`.
        seed: of all random choices.
        sorter, beside: see `rankops.training.objective.Criterion`.
        fresh: draws so many new scenes, images (n, height, width) uint8 and label ranks (n, K), which each epoch is
            trained on in place of the training split's; the thresholds are trained on the split.
        device, precision: see `rankops.training.loop.compute`. Of half precision are the steps, the validation of each epoch
            and the embeddings that the thresholds learn from; a `LabelRanker` computes in float32.
        checkpoint: folder for the state of a training that may be killed.
        name: for messages.

    Yields:
        `scorer` or `thresholds`, the epoch, and the networks with the weights of their best epochs (complete once
        the iteration has ended).

    Raises:
        ValueError, FloatingPointError: see `rankops.training.loop.fit`.
    """
    here = compute(device=device, precision=precision)
    place, share = here.device, (here.process_index, here.num_processes)
    scorer, thresholds = training["scorer"], training["thresholds"]
    images, label_ranks = as_batch(train_split[0]).to(place), train_split[1].to(place)
    val_images, val_ranks = as_batch(val_split[0]).to(place), val_split[1].to(place)
    outputs = label_ranks.shape[1]
    network = build("models", model["name"], model["args"], seed=seed, outputs=outputs, colors=images.shape[1])
    network = network.to(memory_format=torch.channels_last)
    criterion = Criterion(loss, sorter=None if sorter is None else sorter.to(place), beside=beside)
    batch_size = scorer["batch_size"]
    moves = {option: scorer[option] for option in ("shift", "zoom", "rotation") if option in scorer}
    epochs: list[Epoch] = []

    def batches(generator: torch.Generator) -> Iterator[tuple]:
        shown, ranks = images, label_ranks
        if fresh is not None:
            shown, ranks = fresh(len(images), generator)
            shown, ranks = as_batch(shown).to(place), ranks.to(place)
        for rows in random_batches(len(images), batch_size, generator, share=share):
            rows = rows.to(place)
            yield warped(shown[rows], generator, **moves), ranks[rows], generator

    def batch_loss(network: nn.Module, batch: tuple) -> Tensor:
        pictures, target, generator = batch
        return criterion(network(pictures), target, epoch=len(epochs) + 1, generator=generator)

    def scores_of(network: nn.Module, pictures: Tensor) -> tuple[Tensor, Tensor]:
        with here.autocast():  # the head is in float32: scores of near ties would be rounded to the same
            parts = [network.embed(part) for part in pictures.split(256)]
        parts = [part.float() for part in parts]
        return torch.cat([network.head(part) for part in parts]), torch.cat(parts)

    def validate(network: nn.Module) -> dict[str, float]:
        rates = ranked(scores_of(network, val_images)[0].float(), val_ranks)
        return {figure: rates[figure].mean().item() for figure in ("accuracy", "exact_match")}

    ranker = LabelRanker(network, build(
        "models", "threshold_network", {"hidden": thresholds["hidden"]}, seed=seed,
        features=network.embedding_size, outputs=outputs,
    ), training.get("views"))  # fmt: skip
    common = {"seed": seed, "device": device, "precision": precision}
    for epoch in fit(
        network, batches=batches, loss=batch_loss, validate=validate, epochs=scorer["epochs"],
        batches_per_epoch=batch_count(len(images), batch_size, share=share), patience=scorer["patience"],
        optimizer=scorer["optimizer"], schedule=scorer["schedule"], judged_by=scorer.get("judged_by", JUDGED_BY),
        average=scorer.get("average"), checkpoint=checkpoint and checkpoint / "scorer", name=name, **common,
    ):  # fmt: skip
        epochs.append(epoch)
        yield "scorer", epoch, ranker

    # The scorer is frozen from here on: its scores and embeddings are computed once.
    network.eval()
    with torch.no_grad():
        scores, embeddings = scores_of(network, images)
        val_scores, val_embeddings = scores_of(network, val_images)
    present, size = (label_ranks > 0).float(), thresholds["batch_size"]

    def threshold_batches(generator: torch.Generator) -> Iterator[Tensor]:
        return (rows.to(place) for rows in random_batches(len(images), size, generator, share=share))

    def threshold_loss(network: nn.Module, rows: Tensor) -> Tensor:
        return nn.functional.binary_cross_entropy_with_logits(scores[rows] - network(embeddings[rows]), present[rows])

    def threshold_validate(network: nn.Module) -> dict[str, float]:
        levels = network(val_embeddings)
        check_scores(levels)
        rates = unranked(val_scores > levels, val_ranks)
        return {figure: rates[figure].mean().item() for figure in ("accuracy", "exact_match")}

    for epoch in fit(
        ranker.thresholds, batches=threshold_batches, loss=threshold_loss, validate=threshold_validate,
        epochs=thresholds["epochs"], batches_per_epoch=batch_count(len(images), size, share=share),
        patience=thresholds["patience"], optimizer=thresholds["optimizer"], schedule=thresholds["schedule"],
        judged_by=JUDGED_BY, checkpoint=checkpoint and checkpoint / "thresholds", name=f"{name} (thresholds)", **common,
    ):  # fmt: skip
        yield "thresholds", epoch, ranker


def save(path: str | Path, ranker: LabelRanker) -> None:
    """Writes both networks below `path`, and the options of views if it has any, so that `load(path)` rebuilds them."""
    (Path(path) / VIEWS).unlink(missing_ok=True)  # of another ranker, which was saved there
    save_model(Path(path) / "scorer", ranker.scorer)
    save_model(Path(path) / "thresholds", ranker.thresholds)
    if ranker.views:
        with replaced_file(Path(path) / VIEWS) as partial:
            partial.write_text(json.dumps(ranker.views, indent=2, sort_keys=True) + "\n")


def load(path: str | Path, *, device: str | torch.device = "cpu") -> LabelRanker:
    """What `save` wrote.

    Raises:
        FileNotFoundError, ValueError: see `rankops.io.checkpoints.load_model`; or the file of views is damaged.
    """
    scorer, thresholds = (load_model(Path(path) / part, device=device) for part in ("scorer", "thresholds"))
    file = Path(path) / VIEWS
    try:
        return LabelRanker(scorer, thresholds, json.loads(file.read_text()) if file.is_file() else None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: no options of views ({error}); make it again with `dvc repro`") from error


def label_ranks_of(scores: Tensor, selected: Tensor) -> Tensor:
    """Label ranks of the selected labels by their scores: 0 = not selected, larger = more important.

    >>> label_ranks_of(torch.tensor([[0.5, -2.0, 3.0]]), torch.tensor([[True, False, True]]))
    tensor([[1, 0, 2]])
    """
    # dense_ranks ranks what is positive: each score's place among all of them is.
    places = torch.searchsorted(scores.sort(dim=-1).values, scores.contiguous()) + 1
    return dense_ranks(torch.where(selected, places, 0))


def predictions(ranker: LabelRanker, split: tuple[Tensor, Tensor]) -> pa.Table:
    """One row an image: `id`, `scores`, `label_ranks` (0 = absent, larger = more important) and `selected`.

    Raises:
        FloatingPointError: a score is not finite.
    """
    scores, thresholds = ranker(split[0])
    check_finite(scores, "scores")
    selected = scores > thresholds
    columns = {"scores": scores, "label_ranks": label_ranks_of(scores, selected), "selected": selected}
    return pa.table(
        {"id": pa.array(range(len(scores)), pa.int64())} | {name: as_lists(part) for name, part in columns.items()}
    )


def figures(table: pa.Table, split: tuple[Tensor, Tensor]) -> Figures:
    """Ranked and unranked figures of a table of `predictions`, such as `ranked.accuracy`.

    F1 is as the paper prints it: of the averaged precision and recall.

    Args:
        table: from `predictions`.
        split: as from `load_split`, in the table's order; its label ranks are the true ones.
    """
    label_ranks = split[1]
    rates = {
        "ranked": ranked(matrix(table, "scores", path="predictions"), label_ranks),
        "unranked": unranked(matrix(table, "selected", path="predictions"), label_ranks),
    }
    columns = {f"{kind}.{name}": values.numpy() for kind, several in rates.items() for name, values in several.items()}

    def of_rows(rows: np.ndarray) -> np.ndarray:
        found = {name: values[rows].mean(-1) for name, values in columns.items()}
        for kind in rates:
            precision, recall = found[f"{kind}.precision"], found[f"{kind}.recall"]
            found[f"{kind}.f1"] = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
        return np.stack([found[name] for name in names])

    names = [*columns, *(f"{kind}.f1" for kind in rates)]
    return Figures(names, len(label_ranks), of_rows)
