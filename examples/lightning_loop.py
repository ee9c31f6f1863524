"""A Lightning module that trains on Spearman's correlation and logs the exact metric."""

import logging
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from rankgrad.losses import spearman
from rankgrad.metrics import spearman as correlation

try:
    import lightning
except ModuleNotFoundError:
    sys.exit("This example needs the package lightning: pip install lightning")


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(20, 1)

    def training_step(self, batch, index):
        x, y = batch
        return spearman(self.network(x).squeeze(1), y)  # ranks within the batch: take large ones

    def validation_step(self, batch, index):
        x, y = batch
        self.log("spearman", correlation(self.network(x).squeeze(1), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(0, verbose=False)
x = torch.randn(2000, 20)
y = (3 * x @ torch.randn(20) / 20**0.5 + torch.randn(2000)).exp()
train, test = TensorDataset(x[:1000], y[:1000]), TensorDataset(x[1000:], y[1000:])
# A last batch of one example has no order: drop it.
batches = DataLoader(train, batch_size=250, shuffle=True, drop_last=True)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(accelerator="cpu", max_epochs=100, **quiet)
model = Regression()
trainer.fit(model, batches)
(result,) = trainer.validate(model, DataLoader(test, batch_size=1000), verbose=False)
print(f"Spearman {result['spearman']:.3f}")
