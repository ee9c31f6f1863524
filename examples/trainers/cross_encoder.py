"""A cross-encoder of sentence-transformers: with its own LambdaLoss, and with a listwise loss of RankGrad."""

import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from rankgrad.losses import lambdarank
from rankgrad.metrics import EpochMetric, ndcg
from rankgrad.ragged import pad_groups

try:
    from datasets import Dataset, disable_progress_bars
    from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import LambdaLoss
    from sentence_transformers.util import batch_to_device
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
except ModuleNotFoundError as error:
    sys.exit(f"This example needs the package {error.name}: see examples/trainers/README.md")


class ListLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, labels, prompt=None, task=None):
        queries, documents = inputs
        pairs = []
        for query, texts in zip(queries, documents, strict=True):
            pairs += [(query, text) for text in texts]
        tokens = batch_to_device(self.model.preprocess(pairs, prompt=prompt, task=task), self.model.device)
        sizes = [len(texts) for texts in documents]
        scores, mask = pad_groups(self.model(tokens)["scores"].view(-1), sizes=sizes)
        relevance, _ = pad_groups(torch.cat(labels), sizes=sizes)
        return lambdarank(scores, relevance, mask=mask)


def tiny_encoder(words: list[str], folder: str) -> CrossEncoder:
    """Return a small BERT with random weights, of one token a word."""
    (Path(folder) / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=5 + len(words), num_labels=1, hidden_dropout_prob=0.0, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)
    return CrossEncoder(folder, device="cpu")


def ndcg_of(model: CrossEncoder, lists: Dataset) -> float:
    """Return the mean NDCG of lists of different lengths, which come one by one."""
    metric = EpochMetric(ndcg)
    for number, row in enumerate(lists):
        scores = model.predict([(row["query"], text) for text in row["docs"]], convert_to_tensor=True)
        metric.update(scores, torch.tensor(row["labels"]), query=torch.full(scores.shape, number))
    return metric.compute().nanmean().item()


# Toy data: a document is as relevant as it has words of the query's topic.
draws = random.Random(0)
topics = {"cats": ["purr", "claw", "meow", "whiskers"], "ships": ["sail", "harbor", "anchor", "deck"]}
words = [*topics["cats"], *topics["ships"], "the", "a", "of", "and", "with", "is"]
rows = {"query": [], "docs": [], "labels": []}
for _ in range(400):
    query, documents, labels = draws.choice(list(topics)), [], []
    for _ in range(draws.randint(4, 9)):
        document = draws.choices(words, k=6)
        documents.append(" ".join(document))
        labels.append(min(4, sum(word in topics[query] for word in document)))
    rows["query"].append(query)
    rows["docs"].append(documents)
    rows["labels"].append(labels)
lists = Dataset.from_dict(rows)
disable_progress_bars()
for loss in (LambdaLoss, ListLoss):
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        model = tiny_encoder([*topics, *words], folder)
        arguments = CrossEncoderTrainingArguments(
            folder, num_train_epochs=4, per_device_train_batch_size=16, learning_rate=0.003, use_cpu=True,
            save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        before = ndcg_of(model, lists.select(range(300, 400)))
        CrossEncoderTrainer(model, arguments, train_dataset=lists.select(range(300)), loss=loss(model)).train()
    after = ndcg_of(model, lists.select(range(300, 400)))
    print(f"{loss.__name__}: NDCG {before:.3f} untrained, {after:.3f} trained")
