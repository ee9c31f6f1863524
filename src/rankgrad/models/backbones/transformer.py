"""A text encoder of Hugging Face's transformers, from a folder; needs the extra `transformers`.

The folder may come from a stranger. Factories of transformers run code and ask the Hub if a configuration tells them
to, so that only plain options of known encoders reach them.
"""

import json
import re
import threading
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from rankgrad.checks import check_count
from rankgrad.layers import Backbone, Freeze, missing_extra
from rankgrad.lookup import did_you_mean
from rankgrad.plain_text import parsed_json, plain_text
from rankgrad.vocabulary import PAIR

__all__ = ["ENCODERS", "Transformer"]

# Model types that read text, have all of their code in transformers, and load nothing else when they are made. Others
# do: timm_wrapper unpickles, detr runs the Python of a folder, yoso compiles.
ENCODERS = (
    "albert",
    "bert",
    "camembert",
    "convbert",
    "data2vec-text",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "eurobert",
    "megatron-bert",
    "mobilebert",
    "modernbert",
    "mpnet",
    "rembert",
    "roberta",
    "roberta-prelayernorm",
    "roformer",
    "xlm-roberta",
    "xlm-roberta-xl",
)
# Options that name code or files elsewhere, or another implementation; null and false ask for nothing.
FOREIGN = re.compile(
    r"auto_map|custom_pipelines|trust_remote_code|model_args|checkpoint_path|pretrained_cfg|quantization_config"
    r"|per_layer_config|backbone.*|use_(timm|pretrained)_backbone|_?(attn|experts)_implementation(_internal)?"
    r"|[a-z]\w*_name_or_path"
)
# What decides nothing about the vectors of texts: names, types of numbers, how a network is run, and the task that it
# was trained on.
IGNORED = {
    "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label", "is_encoder_decoder", "label2id",
    "model_type", "num_labels", "output_attentions", "output_hidden_states", "problem_type",
    "reference_compile", "return_dict", "torch_dtype", "transformers_version",
}  # fmt: skip
# What encoders read although their classes have no such option; ModernBERT of earlier versions, the last five.
ALSO_READ = {
    "attention_head_size", "conv_act", "conv_groups", "conv_kernel_size", "embedding_size", "head_dim", "norm_rel_ebd",
    "position_buckets", "share_att_key", "talking_head", "global_attn_every_n_layers", "global_rope_theta",
    "local_rope_theta", "rope_scaling", "rope_theta",
}  # fmt: skip
LARGEST = 2**24  # number in a configuration
MOST_LAYERS = 1000  # a configuration of a few bytes could ask for any number
MOST_GROWING = 6  # steps of a tokenizer that may make a text longer
OFFLINE_LOCK = threading.Lock()  # of `_offline`: all threads share its switch


class Transformer(Backbone):
    """A text encoder of Hugging Face's transformers, such as a BERT or a MiniLM; `ENCODERS` are the types it may have.

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
        ValueError: the files are not of a text encoder, or ask for code, or for files from elsewhere; it has no
            position for so many tokens.
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
        _check_config(config)  # before transformers makes anything
        try:
            from tokenizers import Tokenizer
            from transformers import CONFIG_MAPPING, AutoModel, __version__
        except ModuleNotFoundError as error:
            raise missing_extra("transformers") from error
        with _errors_as_value_errors("not the files of a text encoder"), _offline():
            if config["model_type"] not in CONFIG_MAPPING:
                raise ValueError(f"transformers {__version__} has no {config['model_type']}, a later one may")
            config_class: Any = CONFIG_MAPPING[config["model_type"]]
            default = config_class()  # which options it has
            settings = config_class(**_options_of(default, config))
            _check_tokenizer(tokenizer)
            self.tokenizer = Tokenizer.from_str(json.dumps(tokenizer))
            self.network: Any = AutoModel.from_config(settings, dtype=torch.float32, trust_remote_code=False)
        positions = getattr(settings, "max_position_embeddings", None)
        if positions is not None and longest > positions:
            raise ValueError(f"longest is {longest}, expected at most the encoder's {positions} positions")
        # The pooler belongs to the task that the encoder was trained on.
        if getattr(self.network, "pooler", None) is not None:
            self.network.pooler = None
        self.marks_second = getattr(settings, "type_vocab_size", 0) > 1
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(longest)
        self.pooling = pooling
        self.size = settings.hidden_size
        self.published_below = [f"{self.network.base_model_prefix}."]
        self.frozen = freeze
        super().freeze(self.frozen)

    def freeze(self, which: Freeze) -> None:
        """Freeze as a training's option asks; None restores the encoder's own option."""
        super().freeze(self.frozen if which is None else which)

    @staticmethod
    def files(folder: Path) -> dict[str, Any]:
        """Return the arguments that a folder of Hugging Face's form holds.

        Raises:
            FileNotFoundError: it lacks one of the files.
            ValueError: one is no JSON.
        """
        arguments = {}
        for option in ("config", "tokenizer"):
            file = folder / f"{option}.json"
            if not file.is_file():
                raise FileNotFoundError(
                    f"{folder}: no {file.name} there; expected a folder with config.json, tokenizer.json and "
                    "model.safetensors, as `save_pretrained` of transformers writes it"
                )
            try:
                arguments[option] = parsed_json(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{file}: not JSON ({error})") from error
        return arguments

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return numbers of tokens plus 1 (n, longest), padded with 0.

        Two texts with `rankgrad.vocabulary.PAIR` between them are tokenized as a pair; where the tokenizer marks the
        second one, its numbers are larger by 2^24.

        Raises:
            ValueError: a text is blank; the message names it.
        """
        for row, text in enumerate(texts):
            if not text.strip():
                raise ValueError(f"text {row} is {text!r}, expected at least one word")
        plain = [tuple(map(plain_text, text.split(PAIR, 1))) for text in texts]
        with _errors_as_value_errors("tokenizer"):
            encodings = self.tokenizer.encode_batch([text if len(text) > 1 else text[0] for text in plain])
            numbers = []
            for encoding in encodings:
                numbers.append(torch.tensor(encoding.ids) + 1 + LARGEST * torch.tensor(encoding.type_ids))
        return torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        is_token = tokens != 0
        numbers = (tokens - 1).clamp(min=0)
        types = {"token_type_ids": numbers // LARGEST} if self.marks_second else {}
        output = self.network(input_ids=numbers % LARGEST, attention_mask=is_token.long(), **types)
        states = output.last_hidden_state
        if self.pooling == "first":
            return states[:, 0]
        weights = is_token.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


def _check_config(config: Any) -> None:
    """Raise a ValueError if a configuration is not of a known encoder, or asks for code or files from elsewhere."""
    if not isinstance(config, dict):
        raise ValueError(f"config is {str(config)[:80]!r}, expected the object that a text encoder's config.json holds")
    if (model_type := config.get("model_type")) not in ENCODERS:
        raise ValueError(
            f"config: model_type is {str(model_type)[:80]!r}, expected a text encoder: one of {', '.join(ENCODERS)}"
            f"{did_you_mean(str(model_type)[:80], ENCODERS)}"
        )
    for option in ("is_decoder", "add_cross_attention"):
        if config.get(option):
            raise ValueError(f"config: {option} is {str(config[option])[:80]}, expected false: an encoder")
    for block in _nested(config, skipped=IGNORED):  # skips names of labels, which may be any text
        for key, value in block.items() if isinstance(block, dict) else ():
            if FOREIGN.fullmatch(key) and value:
                raise ValueError(
                    f"config: {key} is {str(value)[:80]!r}: it asks for code, or for files from elsewhere, and "
                    "none are taken; remove it if the encoder works without"
                )


def _nested(value: Any, *, skipped: Collection[str] = ()) -> Iterator[Any]:
    """Yield a value of JSON and all values within it, except those of skipped keys; without recursion."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += [inner for key, inner in value.items() if key not in skipped]


def _options_of(default: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a configuration that its class has, or that its network reads.

    Args:
        default: an instance of the class, with the default of each option.
        config: what `config.json` holds.

    Raises:
        ValueError: a value is not plain: it could be a path, an address or a name of something on the Hub.
    """
    known = (default.to_dict().keys() | default.attribute_map.keys() | ALSO_READ) - IGNORED
    options = {key: value for key, value in config.items() if key in known}
    for key, value in options.items():
        for inner in _nested(value):
            for plain in inner if isinstance(inner, dict) else [inner]:  # the keys of a block too
                _check_plain(key, plain)
    return options


def _check_plain(key: str, value: Any) -> None:
    """Raise a ValueError if a text may be a path or an address, or a number is too large."""
    most = MOST_LAYERS if key.endswith("layers") else LARGEST
    if isinstance(value, str) and not re.fullmatch(r"[\w|.-]*", value):
        raise ValueError(f"config: {key} is {value[:80]!r}, expected only letters, digits, _, -, . and |")
    if isinstance(value, int | float) and not -LARGEST <= value <= most:
        raise ValueError(f"config: {key} is {value}, expected at most {most:,}")


def _check_tokenizer(tokenizer: Any) -> None:
    """Raise a ValueError if a tokenizer may make a text much longer: 20 steps may make it a million times as long.

    The tokenizers' Rust ends the process when memory runs out.
    """
    growing = 0
    for step in _nested([tokenizer.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor")]):
        step_type = step.get("type") if isinstance(step, dict) else None
        if step_type == "Replace":
            pattern, content = step.get("pattern"), str(step.get("content"))
            text = pattern.get("String") if isinstance(pattern, dict) else pattern
            growing += bool(content) and not text  # a pattern may be found between any two letters
            if len(content) > max(1, len(str(text or ""))):
                raise ValueError(f"tokenizer: {content[:40]!r} replaces {text or 'a pattern'!r:.40}, which is shorter")
        elif step_type in ("ByteLevel", "Precompiled"):
            growing += 1
        elif step_type == "TemplateProcessing":
            for form, count in (("single", 1), ("pair", 2)):
                if str(step.get(form)).count("'Sequence'") > count:
                    raise ValueError("tokenizer: its template has a text several times, expected it once")
    if growing > MOST_GROWING:
        raise ValueError(f"tokenizer: {growing} steps that may make a text longer, expected at most {MOST_GROWING}")


@contextmanager
def _offline() -> Generator[None]:
    """Block requests to the Hub meanwhile, though nothing here should send one."""
    from huggingface_hub import constants

    with OFFLINE_LOCK:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True  # read at each request; the environment is only read at import
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


@contextmanager
def _errors_as_value_errors(start: str) -> Generator[None]:
    """Raise any error of these libraries as a ValueError, its message after `start`."""
    try:
        yield
    except BaseException as error:  # a panic of the tokenizers' Rust is not an Exception, and its class is private
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{start}: {' '.join(str(error).split())[:300]}") from error
