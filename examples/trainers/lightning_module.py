"""A Lightning module that trains on Spearman's correlation and logs the correlation of the whole validation set."""

import logging
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from rankgrad.losses import spearman
from rankgrad.metrics import EpochMetric
from rankgrad.metrics import spearman as correlation

try:
    import lightning
except ModuleNotFoundError as error:
    sys.exit(f"This example needs the package {error.name}: see examples/trainers/README.md")


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(20, 1)
        self.correlation = EpochMetric(correlation)

    def training_step(self, batch, index):
        x, y = batch
        return spearman(self.network(x).squeeze(1), y)  # ranks within the batch: take large ones

    def validation_step(self, batch, index):
        x, y = batch
        self.correlation.update(self.network(x).squeeze(1), y)

    def on_validation_epoch_end(self):
        self.log("spearman", self.correlation.compute())  # of all batches, on all processes
        self.correlation.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(0, verbose=False)
x = torch.randn(2000, 20)
y = (3 * x @ torch.randn(20) / 20**0.5 + torch.randn(2000)).exp()
# A last batch of one example has no order: drop it.
train = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=250, shuffle=True, drop_last=True)
test = DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=64)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(accelerator="cpu", max_epochs=60, **quiet)
model = Regression()
(before,) = trainer.validate(model, test, verbose=False)
trainer.fit(model, train)
(after,) = trainer.validate(model, test, verbose=False)
print(f"spearman: correlation {before['spearman']:.3f} untrained, {after['spearman']:.3f} trained")
