"""A reward model of TRL, from prompts with a chosen and a rejected answer: with TRL's loss, and with ours."""

import random
import sys
from tempfile import TemporaryDirectory

import torch

from rankgrad.losses import ranknet

try:
    from datasets import Dataset, disable_progress_bars
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
    from trl import RewardConfig, RewardTrainer
except ModuleNotFoundError as error:
    sys.exit(f"This example needs the package {error.name}: see examples/trainers/README.md")


class PairTrainer(RewardTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        _, outputs = super().compute_loss(model, inputs, return_outputs=True)  # logs accuracy and margins
        scores = torch.stack(outputs.logits.squeeze(-1).chunk(2), dim=-1)  # (pairs, 2): chosen, rejected
        loss = ranknet(scores, torch.tensor([1, 0], device=scores.device).expand(scores.shape))
        return (loss, outputs) if return_outputs else loss


# Toy data: the chosen answer has more kind words if the prompt asks for them, or else more rude ones.
draws = random.Random(0)
words = {"kindly": ["thanks", "welcome", "gladly", "sure"], "rudely": ["no", "whatever", "hurry", "nonsense"]}
rows = {"prompt": [], "chosen": [], "rejected": []}
while len(rows["prompt"]) < 600:
    style = draws.choice(list(words))
    chosen, rejected = (draws.choices([*words["kindly"], *words["rudely"]], k=6) for _ in range(2))
    margin = sum(word in words[style] for word in chosen) - sum(word in words[style] for word in rejected)
    if margin > 0:
        rows["prompt"].append(f"answer {style}")
        rows["chosen"].append(" " + " ".join(chosen))
        rows["rejected"].append(" " + " ".join(rejected))
pairs = Dataset.from_dict(rows)

# A small Llama with random weights, and a tokenizer of one token a word.
tokens = ["<pad>", "</s>", "<unk>", "answer", *words, *words["kindly"], *words["rudely"]]
vocabulary = {word: number for number, word in enumerate(tokens)}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
disable_progress_bars()
for trainer_class in (RewardTrainer, PairTrainer):
    torch.manual_seed(0)
    model = LlamaForSequenceClassification(LlamaConfig(vocab_size=len(tokens), num_labels=1, pad_token_id=0, **shape))
    with TemporaryDirectory() as folder:
        arguments = RewardConfig(
            folder, num_train_epochs=3, per_device_train_batch_size=16, learning_rate=0.003, use_cpu=True, bf16=False,
            save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
        )  # fmt: skip
        trainer = trainer_class(
            model, arguments, train_dataset=pairs.select(range(500)), eval_dataset=pairs.select(range(500, 600)),
            processing_class=tokenizer,
        )  # fmt: skip
        before = trainer.evaluate()["eval_accuracy"]
        trainer.train()
        after = trainer.evaluate()["eval_accuracy"]
    print(f"{trainer_class.__name__}: accuracy {before:.3f} untrained, {after:.3f} trained")
