"""The Hugging Face Trainer with a listwise loss: eight documents for each query, ranked by a small BERT."""

import sys
from tempfile import TemporaryDirectory

import torch

from rankgrad.losses import lambdarank
from rankgrad.metrics import ndcg

try:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
except ModuleNotFoundError as error:
    sys.exit(f"This example needs the package {error.name}: see examples/trainers/README.md")


class ListTrainer(Trainer):
    loss_is_scaled_for_ga = False  # our loss is a mean: divide it by the number of steps that are accumulated

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        relevance = inputs["labels"]  # (queries, documents)
        scores = model(inputs["input_ids"].flatten(0, 1)).logits.view(relevance.shape)
        loss = lambdarank(scores, relevance)
        return (loss, {"scores": scores}) if return_outputs else loss


def compute_metrics(predictions):
    scores, relevance = map(torch.from_numpy, predictions)  # of the whole set: Trainer gathers batches and processes
    return {"ndcg": ndcg(scores, relevance).nanmean().item()}


# Toy data: a document is as relevant as it has tokens below 20, among many others.
torch.manual_seed(0)
tokens = torch.randint(1, 100, (600, 8, 12))
relevance = (tokens < 20).sum(-1).clamp(max=4)
lists = [{"input_ids": ids, "labels": grades} for ids, grades in zip(tokens, relevance, strict=True)]
shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
model = BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=1, **shape))
with TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, num_train_epochs=5, per_device_train_batch_size=8, gradient_accumulation_steps=2, learning_rate=0.002,
        use_cpu=True, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = ListTrainer(
        model, arguments, train_dataset=lists[:500], eval_dataset=lists[500:], compute_metrics=compute_metrics
    )
    before = trainer.evaluate()["eval_ndcg"]
    trainer.train()
    after = trainer.evaluate()["eval_ndcg"]
print(f"lambdarank: NDCG {before:.3f} untrained, {after:.3f} trained")
