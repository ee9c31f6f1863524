"""A Hugging Face Trainer that trains on Spearman's correlation: only `compute_loss` differs."""

import sys
from tempfile import TemporaryDirectory

import torch

from rankgrad.losses import spearman
from rankgrad.metrics import spearman as correlation

try:
    from transformers import Trainer, TrainingArguments
except ModuleNotFoundError:
    sys.exit("This example needs the package transformers: pip install transformers accelerate")


class RankTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        scores = model(inputs["x"])
        loss = spearman(scores, inputs["labels"])  # ranks within the batch: take large ones
        return (loss, {"scores": scores}) if return_outputs else loss


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(20, 1)

    def forward(self, x):
        return self.linear(x).squeeze(-1)


torch.manual_seed(0)
x = torch.randn(2000, 20)
y = (3 * x @ torch.randn(20) / 20**0.5 + torch.randn(2000)).exp()
examples = [{"x": row, "labels": value} for row, value in zip(x[:1000], y[:1000], strict=True)]
with TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, num_train_epochs=100, per_device_train_batch_size=250, learning_rate=0.01, use_cpu=True,
        dataloader_drop_last=True, remove_unused_columns=False, save_strategy="no", logging_strategy="no",
        report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = RankTrainer(model=Network(), args=arguments, train_dataset=examples)
    trainer.train()
print(f"Spearman {correlation(trainer.model(x[1000:]).detach(), y[1000:]):.3f}")
