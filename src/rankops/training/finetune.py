"""Training in two phases: the head on frozen features (a linear probe), then the whole network."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rankops import lookup
from rankops.augmentation import shifted
from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import build
from rankops.training.loop import in_lists
from rankops.training.options import Training

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Batch", "Data", "ProbeAndFinetune", "embedded", "network_of"]

KEPT = 16  # feature tables in a cache folder, the newest


def embedded(network: Any, parts: Iterable[Tensor]) -> Tensor:
    """Return the features of inputs, part by part, in evaluation mode and without gradient; on the network's device.

    Args:
        network: with `embed`.
        parts: what it takes, on any device, see `rankops.inputs.Inputs.parts`.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(part.to(device)) for part in parts])
    network.train(training)
    return features


def network_of(name: str, model: Mapping[str, Any], split: Any, *, seed: int, task: str, **args: Any) -> Any:
    """Return the untrained network of a task for a training split; its weights are drawn from `seed`.

    Its recipe says what it takes and names the classes, so that it can be given raw inputs anywhere.

    Args:
        name: of the network below rankops/models.
        model: `name` and `args` of the head, and `backbone`.
        split: see `rankops.datasets.files.splits.Split`.
        seed: of the weights.
        task: its name.
        args: what the task and its data decide, besides what the inputs do.

    Raises:
        ValueError: the backbone does not take inputs of this kind.
    """
    inputs = split.inputs
    kind = lookup.find("inputs", inputs.kind)
    backbone = model["backbone"]["name"]
    if (takes := lookup.find("models.backbones", backbone).input) != kind.backbone:
        raise ValueError(
            f"{backbone} takes {takes}, but the dataset has {inputs.kind}: choose a backbone of {kind.backbone}"
        )
    parts = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
    network = build("models", name, parts, seed=seed, **kind.runtime(inputs) | args)
    if hasattr(network.backbone, "fit"):  # to what it standardizes by
        network.backbone.fit(inputs.items)
    network.recipe |= {"task": task, "input": inputs.about}
    network.recipe |= {"classes": split.classes} if split.classes else {}
    return network


class Data(NamedTuple):
    """A split as a phase reads it, on the device: its inputs are frozen features in the probe.

    `order` draws the rows of an epoch, None for all in random order, and `rows` is how many they are.
    """

    split: Any
    inputs: Any
    order: Callable[[torch.Generator], Tensor] | None = None
    rows: int | None = None

    def ahead(self, rows: Tensor) -> None:
        """Begin to read what the next batch takes."""
        self.inputs.ahead(rows)


class Batch(NamedTuple):
    """Inputs of a batch, what its outputs are compared with, how much each counts, and the generator of choices."""

    inputs: Tensor
    truth: Any
    weight: Tensor | None
    generator: torch.Generator


class ProbeAndFinetune:
    """What the tasks share that train a head on frozen features, then everything (SoDeep, Section 4.2.1).

    A network that starts from random weights has no features worth freezing: it is trained as a whole from the first
    epoch, with the options of `finetune`, and as long as the probe where `finetune` has no epochs.

    A sorter of fixed length ranks groups of that length, any other a whole batch.

    Args:
        training: `batch_size` and the options of both phases, see `rankops.training.loop.fit`; `finetune` has `shift`
            too, by how many pixels pictures are moved at random. None for a task that only predicts.
        cache: a folder for features, or None to compute them for each training and each prediction.
    """

    name: str
    phases = ("probe", "finetune")
    lower_is_better = False
    monitor: str
    Training = Training

    def __init__(self, training: dict[str, Any] | None = None, *, cache: Path | None = None):
        self.training, self.cache = training or {}, cache
        self.monitor = self.training.get("monitor") or self.monitor

    @staticmethod
    def plan(training: Mapping[str, Any], *, started: bool) -> dict[str, dict[str, Any]]:
        """Return the options of the phases that are trained, by name; see `rankops.tasks.Task`."""
        probe, finetune = (training[phase] for phase in ("probe", "finetune"))
        if not started and not finetune["epochs"]:
            finetune = finetune | {"epochs": probe["epochs"], "patience": probe["patience"]}
        phases = {"probe": probe, "finetune": finetune} if started else {"finetune": finetune}
        batch_size = {"batch_size": training["batch_size"]}
        return {phase: batch_size | options for phase, options in phases.items() if options["epochs"]}

    def is_small(self, phase: str, split: Any) -> bool:
        return phase == "probe" or split.inputs.kind == "features"

    def given(self, split: Any) -> dict[str, Any]:
        """Return what the truth decides about the network, see `rankops.io.checkpoints.build`."""
        raise NotImplementedError

    def choose(self, split: Any, rows: Tensor, generator: torch.Generator) -> Any:
        """Return the truth about the rows of a batch."""
        raise NotImplementedError

    def compare(self, network: Any, outputs: Tensor, truth: Any, length: int) -> tuple[Tensor, Any]:
        """Return scores and truth as the loss takes them, in groups of `length`."""
        raise NotImplementedError

    def weigh(self, weight: Tensor, scores: Tensor, length: int) -> Tensor:
        """Return how much each of the scores that `compare` gave counts, by the weight of each row of a batch (n,)."""
        raise NotImplementedError

    def measure(self, network: Any, outputs: Tensor, split: Any) -> dict[str, float]:
        """Return the validation metrics of a network's outputs for all rows of a split."""
        raise NotImplementedError

    def build(self, model: dict[str, Any], split: Any, *, seed: int) -> Any:
        """Return the untrained network for a training split; its weights are drawn from `seed`."""
        return network_of("network", model, split, seed=seed, task=self.name, **self.given(split))

    def monitor_in(self, phase: str) -> str:
        return self.monitor

    def features(self, network: Any, inputs: Any) -> Tensor:
        """Return the features of inputs, see `embedded`; kept in the cache for all networks that agree on them."""
        if self.cache is None:
            return embedded(network, inputs.parts())
        # Known by the inputs and by what the network makes of the first of them.
        digest = blake2b(digest_size=16)
        inputs.update(digest)
        first = inputs.take(torch.arange(min(64, len(inputs.items))))
        digest.update(embedded(network, [first]).float().cpu().contiguous().numpy().data)
        file = self.cache / f"{digest.hexdigest()}.safetensors"
        if not file.is_file():
            self.cache.mkdir(parents=True, exist_ok=True)
            with replaced_file(file) as partial:
                save_file({"features": embedded(network, inputs.parts()).contiguous().cpu()}, partial)
            for old in sorted(self.cache.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
                old.unlink(missing_ok=True)
        return load_file(file)["features"].to(next(network.parameters()).device)

    def outputs(self, network: Any, inputs: Any) -> Tensor:
        """Return what a network says of each row, on the CPU."""
        inputs = inputs.ready(network)
        return inputs.of_rows(network.head(self.features(network, inputs)).detach().float().cpu())

    def begin(
        self, network: Any, phase: str, train: Any, val: Any, *, accelerator: "Accelerator"
    ) -> tuple[Any, Data, Data]:
        """Return the module that a phase trains, and both splits as the phase reads them."""
        network.backbone.freeze("all" if phase == "probe" else self.training[phase].get("freeze"))
        inputs = [split.inputs.ready(network).to(accelerator.device) for split in (train, val)]
        if phase == "probe":
            inputs = [one.replaced(self.features(network, one)) for one in inputs]
        data = Data(train, inputs[0])
        if (together := self.together(train)) is not None:
            groups, length = together
            counts = groups.bincount()
            rows = int((counts - counts % length).sum())
            data = data._replace(order=partial(in_lists, groups, length), rows=rows)
        return network, data, Data(val, inputs[1])

    def end(self, network: Any, phase: str) -> None:
        """Leave the network as a phase should."""
        network.backbone.freeze(None)

    def rows(self, data: Data, phase: str) -> int:
        return len(data.inputs) if data.rows is None else data.rows

    def group(self, phase: str, objective: Any) -> int:
        return self.length(objective) or 1

    def length(self, objective: Any) -> int | None:
        """Return how many rows are compared with each other; None for a whole batch."""
        return objective.length

    def together(self, split: Any) -> tuple[Tensor, int] | None:
        """Return the group of each row (n,), of which so many are to be in a batch together; None for any rows."""
        return None

    def batch(self, data: Data, phase: str, rows: Tensor, generator: torch.Generator) -> Batch:
        inputs = data.inputs.take(data.inputs.numbers(rows, generator))
        truth = self.choose(data.split, rows, generator)
        if phase == "finetune" and data.inputs.of_pictures:
            inputs = shifted(inputs, self.training["finetune"]["shift"], generator)
        weight = data.split.weight
        return Batch(inputs, truth, None if weight is None else weight[rows].to(inputs.device), generator)

    def loss(self, network: Any, phase: str, batch: Batch, objective: Any) -> Tensor:
        outputs = network.head(batch.inputs) if phase == "probe" else network(batch.inputs)
        length = self.length(objective) or len(outputs)
        scores, truth = self.compare(network, outputs, batch.truth, length)
        weights = None if batch.weight is None else self.weigh(batch.weight, scores, length)
        return objective(scores, truth, weights=weights, generator=batch.generator)

    def validate(self, network: Any, phase: str, data: Data) -> dict[str, float]:
        features = data.inputs.items if phase == "probe" else embedded(network, data.inputs.parts())
        return self.measure(network, data.inputs.of_rows(network.head(features).float()), data.split)
