"""Any text encoder of Hugging Face's transformers, from a folder; needs the extra `transformers`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rankops.checks import check_count
from rankops.models._layers import Backbone, Freeze, missing_extra
from rankops.plain_text import plain_text

__all__ = ["Transformer"]


class Transformer(Backbone):
    """A text encoder of Hugging Face's transformers, such as a BERT or a MiniLM.

    Which one it is, and its tokenizer, are in the folder that a run's `start` names: `config.json`, `tokenizer.json`
    and `model.safetensors`. A trained model has all that it needs of them in its own folder.

    Args:
        config: what `config.json` holds.
        tokenizer: what `tokenizer.json` holds.
        pooling: a text's vector is the `mean` over its tokens, or that of the `first` one.
        longest: text is cut to so many tokens.
        freeze: `all` of it, all but so many of its last blocks, or null for nothing. A training's option of that name
            goes before; of the encoder of captions it knows nothing.

    Shapes:
        token numbers plus 1 (n, longest), padded with 0, to (n, size).

    Raises:
        ModuleNotFoundError: transformers is not installed.
        ValueError: the files are not of a text encoder; it has no position for so many tokens.
    """

    input, maps = "text", False
    left_out = ("",)  # the configuration comes with the weights; whatever else was trained on them is left out

    def __init__(
        self,
        *,
        config: dict[str, Any],
        tokenizer: dict[str, Any],
        pooling: Literal["mean", "first"] = "mean",
        longest: int = 128,
        freeze: Freeze = None,
    ):
        super().__init__()
        check_count("longest", longest)
        try:
            from tokenizers import Tokenizer
            from transformers import AutoConfig, AutoModel
        except ModuleNotFoundError as error:
            raise missing_extra("transformers") from error
        try:
            settings = AutoConfig.for_model(**config)
            self.network: Any = AutoModel.from_config(settings, dtype=torch.float32, trust_remote_code=False)
            self.tokenizer = Tokenizer.from_str(json.dumps(tokenizer))
        except Exception as error:  # whatever these libraries have against files
            raise ValueError(f"not the files of a text encoder: {' '.join(str(error).split())[:300]}") from error
        positions = getattr(settings, "max_position_embeddings", None)
        if positions is not None and longest > positions:
            raise ValueError(f"longest is {longest}, expected at most the encoder's {positions} positions")
        if getattr(self.network, "pooler", None) is not None:
            self.network.pooler = None  # of a task that it was trained on
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(longest)
        self.pooling, self.size, self.frozen = pooling, settings.hidden_size, freeze
        self.published_below = [f"{self.network.base_model_prefix}."]
        self.freeze(None)

    def freeze(self, which: Freeze) -> None:
        super().freeze(self.frozen if which is None else which)

    @staticmethod
    def files(folder: Path) -> dict[str, Any]:
        """Return the arguments that a folder of Hugging Face's form holds.

        Raises:
            FileNotFoundError: it lacks one of the files.
            ValueError: one is no JSON.
        """
        found = {}
        for option in ("config", "tokenizer"):
            file = folder / f"{option}.json"
            if not file.is_file():
                raise FileNotFoundError(
                    f"{folder}: no {file.name} there; expected a folder with config.json, tokenizer.json and "
                    "model.safetensors, as `save_pretrained` of transformers writes it"
                )
            try:
                found[option] = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{file}: not JSON ({error})") from error
        return found

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return numbers of tokens plus 1 (n, longest), padded with 0.

        Raises:
            ValueError: a text is blank; the message names it.
        """
        for row, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"text {row} is {text!r}, expected at least one word")
        numbers = [torch.tensor(one.ids) + 1 for one in self.tokenizer.encode_batch([*map(plain_text, texts)])]
        return torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        there = tokens != 0
        given = {"input_ids": (tokens - 1).clamp(min=0), "attention_mask": there.long()}
        states = self.network(**given).last_hidden_state
        if self.pooling == "first":
            return states[:, 0]
        weights = there.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)
