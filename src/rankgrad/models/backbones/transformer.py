"""A text encoder of Hugging Face's transformers, from a folder; needs the extra `transformers`.

The folder may be untrusted. Factories of transformers run code and contact the Hub if a configuration asks for it, so
only plain options of known encoders are passed to them.
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
from rankgrad.plain_text import PAIR, parsed_json, plain_text

__all__ = ["ENCODERS", "Transformer"]

# Model types that read text, have all their code in transformers, and load nothing else when they are created. Other
# types do: timm_wrapper unpickles, detr runs Python from a folder, yoso compiles.
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
# Options that name external code or files, or another implementation; null and false are harmless.
FOREIGN = re.compile(
    r"auto_map|custom_pipelines|trust_remote_code|model_args|checkpoint_path|pretrained_cfg|quantization_config"
    r"|per_layer_config|backbone.*|use_(timm|pretrained)_backbone|_?(attn|experts)_implementation(_internal)?"
    r"|[a-z]\w*_name_or_path"
)
# Options that do not affect text vectors: names, number types, how a network is run, and the task that it was trained
# on.
IGNORED = {
    "_name_or_path", "architectures", "chunk_size_feed_forward", "dtype", "id2label", "is_encoder_decoder", "label2id",
    "model_type", "num_labels", "output_attentions", "output_hidden_states", "problem_type",
    "reference_compile", "return_dict", "torch_dtype", "transformers_version",
}  # fmt: skip
# Options that encoders read although their classes lack them; the last five are ModernBERT's in earlier versions.
ALSO_READ = {
    "attention_head_size", "conv_act", "conv_groups", "conv_kernel_size", "embedding_size", "head_dim", "norm_rel_ebd",
    "position_buckets", "share_att_key", "talking_head", "global_attn_every_n_layers", "global_rope_theta",
    "local_rope_theta", "rope_scaling", "rope_theta",
}  # fmt: skip
LARGEST = 2**24  # largest number in a configuration
MOST_LAYERS = 1000  # otherwise a tiny configuration could ask for any number
MOST_GROWING = 6  # most steps of a tokenizer that may make a text longer
OFFLINE_LOCK = threading.Lock()  # for `_offline`, whose switch all threads share


class Transformer(Backbone):
    """A text encoder of Hugging Face's transformers, such as BERT or MiniLM; `ENCODERS` lists the allowed types.

    The encoder and its tokenizer are in the folder that a run's `start` names: `config.json`, `tokenizer.json`, and
    `model.safetensors`. A trained model keeps what it needs of them in its own folder.

    Args:
        config: the content of `config.json`.
        tokenizer: the content of `tokenizer.json`.
        pooling: a text's vector is the `mean` over its tokens, or the vector of the `first` token.
        longest: texts are cut to this many tokens.
        freeze: freeze `all` of it, or all but this many of its last blocks; null freezes nothing. A training's option
            `freeze` takes precedence, but does not apply to an encoder of captions.

    Shapes:
        token numbers plus 1 (n, longest), padded with 0, to (n, size).

    Raises:
        ModuleNotFoundError: transformers is not installed.
        ValueError: the files are not those of a text encoder, ask for code or external files, or the encoder has fewer
            positions than `longest`.
    """

    input, maps = "text", False
    left_out = ("",)  # ignore all unknown weights: the configuration fits the weights, so these are other tasks' heads

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
        _check_config(config)  # before transformers creates anything
        try:
            from tokenizers import Tokenizer
            from transformers import CONFIG_MAPPING, AutoModel, __version__
        except ModuleNotFoundError as error:
            raise missing_extra("transformers") from error
        with _errors_as_value_errors("not the files of a text encoder"), _offline():
            if config["model_type"] not in CONFIG_MAPPING:
                raise ValueError(f"transformers {__version__} has no {config['model_type']}; a later version may")
            config_class: Any = CONFIG_MAPPING[config["model_type"]]
            default = config_class()  # shows which options the class has
            settings = config_class(**_options_of(default, config))
            _check_tokenizer(tokenizer)
            self.tokenizer = Tokenizer.from_str(json.dumps(tokenizer))
            self.network: Any = AutoModel.from_config(settings, dtype=torch.float32, trust_remote_code=False)
        positions = getattr(settings, "max_position_embeddings", None)
        if positions is not None and longest > positions:
            raise ValueError(f"longest is {longest}, expected at most the encoder's {positions} positions")
        # The pooler belongs to the task on which the encoder was trained.
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
        """Freeze according to a training's option; None restores the encoder's own option."""
        super().freeze(self.frozen if which is None else which)

    @staticmethod
    def files(folder: Path) -> dict[str, Any]:
        """Return the arguments in a folder that Hugging Face's `save_pretrained` wrote.

        Raises:
            FileNotFoundError: the folder lacks one of the files.
            ValueError: a file is not JSON.
        """
        arguments = {}
        for option in ("config", "tokenizer"):
            file = folder / f"{option}.json"
            if not file.is_file():
                raise FileNotFoundError(
                    f"{folder}: no {file.name} there; expected a folder with config.json, tokenizer.json, and "
                    "model.safetensors, as written by `save_pretrained` of transformers"
                )
            try:
                arguments[option] = parsed_json(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{file}: not JSON ({error})") from error
        return arguments

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Return token numbers plus 1 (n, longest), padded with 0.

        Two texts with `rankgrad.plain_text.PAIR` between them are tokenized as a pair; if the encoder marks the second
        text, its numbers are larger by 2^24.

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
    """Raise ValueError if a configuration is not of a known encoder, or asks for code or external files."""
    if not isinstance(config, dict):
        raise ValueError(f"config is {str(config)[:80]!r}, expected the object in a text encoder's config.json")
    if (model_type := config.get("model_type")) not in ENCODERS:
        raise ValueError(
            f"config: model_type is {str(model_type)[:80]!r}, expected a text encoder: one of {', '.join(ENCODERS)}"
            f"{did_you_mean(str(model_type)[:80], ENCODERS)}"
        )
    for option in ("is_decoder", "add_cross_attention"):
        if config.get(option):
            raise ValueError(f"config: {option} is {str(config[option])[:80]}, expected false, as for an encoder")
    for block in _nested(config, skipped=IGNORED):  # skips names of labels, which may be any text
        for key, value in block.items() if isinstance(block, dict) else ():
            if FOREIGN.fullmatch(key) and value:
                raise ValueError(
                    f"config: {key} is {str(value)[:80]!r}, which asks for code or external files; these are not "
                    "loaded: remove the option if the encoder works without it"
                )


def _nested(value: Any, *, skipped: Collection[str] = ()) -> Iterator[Any]:
    """Yield a JSON value and all values within it, except those of skipped keys, without recursion."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += [inner for key, inner in value.items() if key not in skipped]


def _options_of(default: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a configuration that its class has, or that its network reads.

    Args:
        default: an instance of the class, with the default of each option.
        config: the content of `config.json`.

    Raises:
        ValueError: a value is not plain: it could be a path, an address, or a name on the Hub.
    """
    known = (default.to_dict().keys() | default.attribute_map.keys() | ALSO_READ) - IGNORED
    options = {key: value for key, value in config.items() if key in known}
    for key, value in options.items():
        for inner in _nested(value):
            for plain in inner if isinstance(inner, dict) else [inner]:  # also the keys of a block
                _check_plain(key, plain)
    return options


def _check_plain(key: str, value: Any) -> None:
    """Raise ValueError if a text may be a path or an address, or a number is too large."""
    most = MOST_LAYERS if key.endswith("layers") else LARGEST
    if isinstance(value, str) and not re.fullmatch(r"[\w|.-]*", value):
        raise ValueError(f"config: {key} is {value[:80]!r}, expected only letters, digits, _, -, ., and |")
    if isinstance(value, int | float) and not -LARGEST <= value <= most:
        raise ValueError(f"config: {key} is {value}, expected at most {most:,}")


def _check_tokenizer(tokenizer: Any) -> None:
    """Raise ValueError if a tokenizer may make a text much longer: 20 steps can make it a million times as long.

    When memory runs out, the Rust code of tokenizers ends the process.
    """
    growing = 0
    for step in _nested([tokenizer.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor")]):
        step_type = step.get("type") if isinstance(step, dict) else None
        if step_type == "Replace":
            pattern, content = step.get("pattern"), str(step.get("content"))
            text = pattern.get("String") if isinstance(pattern, dict) else pattern
            growing += bool(content) and not text  # a pattern may match between any two letters
            if len(content) > max(1, len(str(text or ""))):
                raise ValueError(
                    f"tokenizer: {content[:40]!r} replaces {text or 'a pattern'!r:.40}, expected no longer text"
                )
        elif step_type in ("ByteLevel", "Precompiled"):
            growing += 1
        elif step_type == "TemplateProcessing":
            for form, count in (("single", 1), ("pair", 2)):
                if str(step.get(form)).count("'Sequence'") > count:
                    raise ValueError("tokenizer: its template uses a text several times, expected only once")
    if growing > MOST_GROWING:
        raise ValueError(f"tokenizer: {growing} steps that may make a text longer, expected at most {MOST_GROWING}")


@contextmanager
def _offline() -> Generator[None]:
    """Block requests to the Hub, as a precaution; nothing here should send one."""
    from huggingface_hub import constants

    with OFFLINE_LOCK:
        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True  # it is read at each request; the environment only at import
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


@contextmanager
def _errors_as_value_errors(start: str) -> Generator[None]:
    """Convert any error of these libraries to a ValueError whose message begins with `start`."""
    try:
        yield
    except BaseException as error:  # a panic in tokenizers' Rust code is not an Exception, and its class is private
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{start}: {' '.join(str(error).split())[:300]}") from error
