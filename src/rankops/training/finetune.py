"""Training in two phases: the head on frozen features (a linear probe), then the whole network."""

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rankops.io.atomic import replaced_file
from rankops.io.checkpoints import build
from rankops.io.recipes import image_size
from rankops.training.augmentation import shifted
from rankops.training.options import Training

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Batch", "Data", "ProbeAndFinetune", "embedded"]

KEPT = 16  # feature tables in a cache folder, the newest


def embedded(network: Any, images: Tensor, *, batch_size: int = 256) -> Tensor:
    """Return the features of images, part by part, in evaluation mode and without gradient; on the network's device.

    Args:
        network: with `embed`.
        images: (n, colors, height, width) uint8, on any device.
        batch_size: images at once.
    """
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.no_grad():
        features = torch.cat([network.embed(part.to(device)) for part in images.split(batch_size)])
    network.train(training)
    return features


class Data(NamedTuple):
    """A split as a phase reads it: frozen features in the probe, images in fine-tuning; on the device."""

    split: Any
    inputs: Tensor


class Batch(NamedTuple):
    """Inputs of a batch, what its outputs are compared with, and the generator of random choices."""

    inputs: Tensor
    truth: Any
    generator: torch.Generator


class ProbeAndFinetune:
    """What the tasks on images share that train a head on frozen features, then everything (SoDeep, Section 4.2.1).

    A sorter of fixed length ranks groups of that length, any other a whole batch.

    Args:
        training: `batch_size` and the options of both phases, see `rankops.training.loop.fit`; `finetune` has `shift`
            too, by how many pixels images are moved at random. None for a task that only predicts.
        cache: a folder for features, or None to compute them for each training and each prediction.
    """

    name: str
    phases = ("probe", "finetune")
    on_features = ("probe",)
    needs_start = ("probe",)  # frozen random features are of no use
    lower_is_better = False
    monitor: str
    Training = Training

    def __init__(self, training: dict[str, Any] | None = None, *, cache: Path | None = None):
        self.training, self.cache = training or {}, cache

    def images(self, split: Any) -> Tensor:
        """Return all images of a split, (n, colors, height, width) uint8."""
        raise NotImplementedError

    def examples(self, split: Any) -> int:
        """Return how many examples a split has, of which batches are drawn."""
        return len(split[0])

    def outputs(self, split: Any) -> dict[str, Any]:
        """Return what the data decides about the network, see `rankops.io.checkpoints.build`."""
        raise NotImplementedError

    def choose(self, split: Any, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Any]:
        """Return the numbers of the images of a batch, and the truth about it."""
        raise NotImplementedError

    def compare(self, network: Any, outputs: Tensor, truth: Any, length: int) -> tuple[Tensor, Tensor]:
        """Return scores and truth as the loss takes them, in groups of `length`."""
        raise NotImplementedError

    def measure(self, network: Any, outputs: Tensor, split: Any) -> dict[str, float]:
        """Return the validation metrics of a network's outputs for all images of a split."""
        raise NotImplementedError

    def build(self, model: dict[str, Any], split: Any, *, seed: int) -> Any:
        """Return the untrained network for a training split; its weights are drawn from `seed`."""
        image = image_size(self.images(split))
        parts = {"backbone": model["backbone"], "head": {"name": model["name"], "args": model["args"]}}
        network = build("models", "network", parts, seed=seed, colors=image["colors"], **self.outputs(split))
        network.recipe |= {"task": self.name, "image": image}
        return network

    def monitor_in(self, phase: str) -> str:
        return self.monitor

    def features(self, network: Any, images: Tensor) -> Tensor:
        """Return the features of images, see `embedded`; kept in the cache for all networks that agree on them."""
        if self.cache is None:
            return embedded(network, images)
        # Known by the images and by what the network makes of the first of them.
        digest = blake2b(digest_size=16)
        digest.update(images.cpu().contiguous().numpy().data)
        digest.update(embedded(network, images[:64]).float().cpu().contiguous().numpy().data)
        file = self.cache / f"{digest.hexdigest()}.safetensors"
        if not file.is_file():
            self.cache.mkdir(parents=True, exist_ok=True)
            with replaced_file(file) as partial:
                save_file({"features": embedded(network, images).contiguous().cpu()}, partial)
            for old in sorted(self.cache.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)[:-KEPT]:
                old.unlink(missing_ok=True)
        return load_file(file)["features"].to(next(network.parameters()).device)

    def begin(
        self, network: Any, phase: str, train: Any, val: Any, *, accelerator: "Accelerator"
    ) -> tuple[Any, Data, Data]:
        """Return the module that a phase trains, and both splits as the phase reads them."""
        network.backbone.requires_grad_(phase == "finetune")
        inputs = [self.images(split).to(accelerator.device) for split in (train, val)]
        if phase == "probe":
            inputs = [self.features(network, images) for images in inputs]
        return network, Data(train, inputs[0]), Data(val, inputs[1])

    def end(self, network: Any, phase: str) -> None:
        """Leave the network as a phase should."""
        network.backbone.requires_grad_(True)

    def rows(self, data: Data, phase: str) -> int:
        return self.examples(data.split)

    def group(self, phase: str, objective: Any) -> int:
        return objective.length or 1

    def batch(self, data: Data, phase: str, rows: Tensor, generator: torch.Generator) -> Batch:
        numbers, truth = self.choose(data.split, rows, generator)
        inputs = data.inputs[numbers.to(data.inputs.device)]
        if phase == "finetune":
            inputs = shifted(inputs, self.training["finetune"]["shift"], generator)
        return Batch(inputs, truth, generator)

    def loss(self, network: Any, phase: str, batch: Batch, objective: Any) -> Tensor:
        outputs = network.head(batch.inputs) if phase == "probe" else network(batch.inputs)
        scores, truth = self.compare(network, outputs, batch.truth, objective.length or len(outputs))
        return objective(scores, truth, generator=batch.generator)

    def validate(self, network: Any, phase: str, data: Data) -> dict[str, float]:
        features = data.inputs if phase == "probe" else embedded(network, data.inputs)
        return self.measure(network, network.head(features), data.split)
