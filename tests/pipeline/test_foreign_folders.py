"""Folders and files of strangers: none of them runs code, sends a request, or has a file read that is not its own.

Run by a nightly job with the oldest versions of timm and transformers too.
"""

import json
import pickle
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from contracts.test_models import FILES, TINY
from safetensors.torch import save_file
from torchvision.models import get_model_weights

from pipelines.config import schema
from pipelines.config.scales import round_trip
from pipelines.serving.named_model import model_folder
from rankgrad import lookup
from rankgrad.datasets.tables.files import names_in, read_sheet
from rankgrad.io.checkpoints import build, load_model
from rankgrad.io.starts import start_from, with_files
from rankgrad.models.backbones.transformer import ENCODERS
from rankgrad.models.network import made

pytest.importorskip("timm")
transformers = pytest.importorskip("transformers")

BERT, TOKENIZER = FILES["config"], FILES["tokenizer"]


def encoder(**files: Any) -> dict[str, Any]:
    """Return the block of a text encoder, some of whose files are others."""
    return {"name": "transformer", "files": FILES | files}


class Payload:
    """What unpickles as a call that makes a file."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


class Stranger:
    """A folder of a stranger.

    Attributes:
        folder: holds a pickle, `evil.pth`, and Python, `code/`. Each makes the file `ran` if it is run.
        ran: whether one was.
        requests: addresses that something asked for, or wanted to.
    """

    def __init__(self, folder: Path):
        self.folder, self.requests = folder, []
        (folder / "code").mkdir(parents=True)
        torch.save({"state_dict": Payload(folder / "ran")}, folder / "evil.pth")
        code = f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\nclass Evil: pass\n"
        for name in ("__init__", "configuration_evil", "modeling_evil"):
            (folder / f"code/{name}.py").write_text(code)
        names = {"AutoConfig": "configuration_evil.Evil", "AutoModel": "modeling_evil.Evil"}
        names["AutoBackbone"] = names["AutoModel"]
        (folder / "code/config.json").write_text(json.dumps({"model_type": "evil", "auto_map": names}))

    @property
    def ran(self) -> bool:
        return (self.folder / "ran").exists()

    def told(self, values: Any) -> Any:
        """Return values of a file with `PICKLE` and `CODE` in place."""
        text = json.dumps(values)
        return json.loads(
            text.replace("PICKLE", str(self.folder / "evil.pth")).replace("CODE", str(self.folder / "code"))
        )

    def model(self, backbone: Any, **recipe: Any) -> Path:
        """Write the folder of a model with this backbone."""
        args = {"backbone": self.told(backbone), "head": {"name": "linear", "args": {}}, "outputs": 1}
        recipe = {"folder": "models", "name": "network", "args": args} | recipe
        (self.folder / "model.json").write_text(json.dumps(recipe))
        save_file({"none": torch.zeros(1)}, self.folder / "model.safetensors")
        return self.folder

    def encoder(self, config: Any, tokenizer: Any = TOKENIZER) -> Path:
        """Write the folder of a text encoder."""
        (self.folder / "config.json").write_text(json.dumps(self.told(config)))
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        save_file({"none": torch.zeros(1)}, self.folder / "model.safetensors")
        return self.folder


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A stranger's folder; at the end nothing of it has run, and nothing was asked for."""
    stranger = Stranger(tmp_path / "stranger")

    def refuse(*address: Any, **options: Any) -> None:
        stranger.requests.append(address)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield stranger
    assert not stranger.ran
    assert stranger.requests == []


def test_the_payloads_would_run(tmp_path, monkeypatch):
    pickled, coded = (Stranger(tmp_path / name) for name in ("pickle", "code"))
    torch.load(pickled.folder / "evil.pth", weights_only=False)
    monkeypatch.syspath_prepend(coded.folder / "code")
    import_module("modeling_evil")
    del sys.modules["modeling_evil"]
    assert pickled.ran
    assert coded.ran


TIMM = {"model_type": "timm_wrapper", "architecture": "test_resnet"}
CONFIGS = {
    "a pickle by timm_wrapper": TIMM | {"model_args": {"checkpoint_path": "PICKLE"}},
    "code by a backbone": BERT | {"backbone": "CODE"},
    "a type that is a list": {"model_type": ["bert"]},
    "auto_map": BERT | {"auto_map": {"AutoModel": "modeling_evil.Evil"}, "_name_or_path": "CODE"},
    "a kernel, inside": BERT | {"_attn_implementation_internal": "evil/kernel"},
    "a kernel in an unknown block": BERT | {"rest": [{"deeper": {"attn_implementation": "evil/kernel"}}]},
    "quantization": BERT | {"quantization_config": {"quant_method": "awq"}},
    "an adapter": BERT | {"base_model_name_or_path": "evil/model"},
    "trust": BERT | {"trust_remote_code": True},
    "an activation that is a repository": BERT | {"hidden_act": "evil/kernel"},
    "a rope that is a repository": TINY
    | {"model_type": "modernbert", "vocab_size": 9, "rope_parameters": {"full_attention": {"rope_type": "evil/rope"}}},
    "layers without end": BERT | {"num_hidden_layers": 10**10},
    "layers of no weights": BERT | {"num_hidden_layers": 10**5, "hidden_size": 0},
    "a decoder": BERT | {"is_decoder": True},
}


class TestEncoders:
    @pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
    def test_a_configuration_gets_no_code_and_no_request(self, config, stranger):
        with pytest.raises(ValueError, match="config: "):
            load_model(stranger.model(encoder(config=config)))
        (stranger.folder / "model.json").unlink()
        start = with_files({"backbone": {"name": "transformer", "args": {}}}, stranger.encoder(config))
        with pytest.raises(ValueError, match="config: "):
            build("models", "network", start | {"head": {"name": "linear"}}, seed=0, outputs=1)

    def test_what_encoders_do_not_read_is_left_out(self, stranger):
        harmless = {
            "_name_or_path": "CODE", "name_or_path": "CODE", "architectures": ["Evil"], "transformers_version": "0",
            "torch_dtype": "load", "dtype": "hub",  # which transformers looks up in torch
            "label2id": {"auto_map": 1, "backbone": 2}, "id2label": {"1": "auto_map"},
            "auto_map": None, "quantization_config": None, "attn_implementation": None,
            "index_path": "PICKLE", "checkpoint": "PICKLE", "_commit_hash": "0", "unknown": {"file": "PICKLE"},
        }  # fmt: skip
        backbone = made("models.backbones", encoder(config=stranger.told(BERT | harmless)))
        assert backbone(backbone.tokenize(["a b"])).shape == (1, 8)
        assert str(stranger.folder) not in str(backbone.network.config.to_dict())

    def test_no_request_is_sent_whatever_transformers_makes(self, stranger, monkeypatch):
        from huggingface_hub import HfApi, constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(transformers.AutoModel, "from_config", lambda *_, **__: HfApi().model_info("evil/model"))
        with pytest.raises(ValueError, match="offline mode is enabled"):
            made("models.backbones", encoder())
        assert constants.HF_HUB_OFFLINE is False

    @pytest.mark.parametrize("model_type", ENCODERS)
    def test_what_save_pretrained_writes_gives_what_transformers_itself_makes_of_it(self, model_type, stranger):
        if model_type not in transformers.CONFIG_MAPPING:
            pytest.skip(f"transformers {transformers.__version__} has no {model_type}")
        kind = transformers.CONFIG_MAPPING[model_type]
        sizes = TINY | {
            "vocab_size": 9, "embedding_size": 8, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 8, "head_dim": 4,
            "num_key_value_heads": 2, "intra_bottleneck_size": 8, "true_hidden_size": 8, "input_embedding_size": 8,
            "output_embedding_size": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
            "sep_token_id": 2, "mask_token_id": 3, "initializer_range": 0.5,
        }  # fmt: skip
        options = {key: value for key, value in sizes.items() if key in kind().to_dict()}
        torch.manual_seed(0)
        theirs = transformers.AutoModel.from_config(kind(**options, num_labels=3), dtype=torch.float32).eval()
        same(theirs, stranger)

    @pytest.mark.parametrize(
        "published",
        [
            # As microsoft/deberta-v3-small has it: four of these its class does not know.
            TINY | {
                "model_type": "deberta-v2", "vocab_size": 9, "relative_attention": True, "position_buckets": 4,
                "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p", "conv_kernel_size": 3,
                "conv_act": "gelu", "max_relative_positions": -1, "position_biased_input": False, "type_vocab_size": 0,
            },
            # As transformers 4.48 wrote answerdotai/ModernBERT-base.
            TINY | {
                "model_type": "modernbert", "vocab_size": 9, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                "cls_token_id": 1, "sep_token_id": 2, "num_hidden_layers": 3, "global_attn_every_n_layers": 2,
                "global_rope_theta": 90.0, "local_rope_theta": 3.0, "local_attention": 4, "layer_norm_eps": 1e-05,
                "position_embedding_type": "absolute", "deterministic_flash_attn": False,
            },
            # As sentence-transformers/all-MiniLM-L6-v2 and others of transformers 4.8 to 4.51.
            BERT | {
                "_name_or_path": "nreimers/MiniLM-L6-H384-uncased", "architectures": ["BertModel"], "use_cache": True,
                "gradient_checkpointing": False, "position_embedding_type": "absolute", "transformers_version": "4.8.2",
                "classifier_dropout": None, "torch_dtype": "float32", "_attn_implementation_autoset": True,
            },
        ],
        ids=["deberta-v3", "modernbert", "minilm"],
    )  # fmt: skip
    def test_a_published_configuration_gives_what_transformers_itself_makes_of_it(self, published, stranger):
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(**published | {"initializer_range": 0.5})
        same(transformers.AutoModel.from_config(config, dtype=torch.float32).eval(), stranger, config=published)


def same(theirs: Any, stranger: Stranger, config: dict | None = None) -> None:
    """Check that the folder of an encoder gives the states that the encoder itself gives."""
    folder = stranger.folder / "saved"
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    components = with_files({"backbone": {"name": "transformer", "args": {"longest": 8}}}, folder)
    network = build("models", "network", components | {"head": {"name": "linear"}}, seed=1, outputs=1).eval()
    start_from(network, folder)
    with torch.no_grad():
        tokens = network.backbone.tokenize(["a b c d e f", "g a"])
        expected = theirs(input_ids=tokens[:1] - 1, attention_mask=torch.ones(1, 6)).last_hidden_state
        assert network.backbone(tokens)[0].allclose(expected[0].mean(0), atol=1e-5)
        assert expected.std() > 0.01


TOKENIZERS = {
    "a file of words": {"model": {"type": "WordLevel", "vocab": "/etc/passwd", "unk_token": "a"}},
    "a panic": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "a text that doubles": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}]}},
    "a text that doubles between its letters": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"Regex": ""}, "content": "a"}] * 20}},
    "a text that doubles by its bytes": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "ByteLevel"}] * 20}},
    "a text many times": {"post_processor": {"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                                             "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 1000}},
}  # fmt: skip


class TestTokenizers:
    def test_brackets_without_end_are_no_file_of_an_encoder(self, stranger):
        folder = stranger.encoder(BERT)
        (folder / "tokenizer.json").write_text("[" * 100_000)
        with pytest.raises(ValueError, match=r"tokenizer\.json: not JSON"):
            with_files({"backbone": {"name": "transformer", "args": {}}}, folder)

    def test_steps_of_published_tokenizers_are_taken(self):
        steps = [{"type": "Replace", "pattern": {"String": "``"}, "content": '"'}, {"type": "NFKD"},
                 {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Lowercase"},
                 {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, {"type": "StripAccents"},
                 {"type": "Prepend", "prepend": "\u2581"}]  # fmt: skip
        changed = TOKENIZER | {"normalizer": {"type": "Sequence", "normalizers": steps}}
        backbone = made("models.backbones", encoder(tokenizer=changed))
        assert backbone.tokenize(["a ``b``"]).shape[0] == 1

    @pytest.mark.parametrize("change", TOKENIZERS.values(), ids=TOKENIZERS)
    def test_an_odd_tokenizer_is_refused(self, change, stranger):
        with pytest.raises(ValueError, match="not the files of a text encoder"):
            load_model(stranger.model(encoder(tokenizer=TOKENIZER | change)))

    def test_what_a_tokenizer_has_against_a_text_is_an_error_of_that_text(self):
        words = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "no"}
        backbone = made("models.backbones", encoder(tokenizer=TOKENIZER | {"model": words}))
        with pytest.raises(ValueError, match="tokenizer: "):
            backbone.tokenize(["b"])


BACKBONES: dict[str, Any] = {
    "timm asks the Hub": {"name": "timm", "args": {"network": "hf-hub:evil/model"}},
    "timm takes a list": {"name": "timm", "args": {"network": ["resnet18"]}},
    "timm unpickles": {"name": "timm", "args": {"network": "test_resnet", "checkpoint_path": "PICKLE"}},
    "timm unpickles by files": {
        "name": "timm", "args": {"network": "test_resnet"}, "files": {"checkpoint_path": "PICKLE"}
    },
    "torchvision fetches": {"name": "torchvision", "args": {"network": "resnet18", "weights": "DEFAULT"}},
    "a module of Python": {"name": "os", "args": {}},
    "a path to a module": {"name": "../../../code/modeling_evil", "args": {}},
    "files that are no object": {"name": "transformer", "files": "CODE"},
    "an encoder from the Hub": encoder(config="evil/model", tokenizer="evil/model"),
}  # fmt: skip


class TestModels:
    @pytest.mark.parametrize("backbone", BACKBONES.values(), ids=BACKBONES)
    def test_a_backbone_gets_no_code_no_request_and_no_other_file(self, backbone, stranger):
        folder = stranger.model(backbone)
        with pytest.raises(ValueError, match=str(folder)):
            load_model(folder)

    @pytest.mark.parametrize(
        "recipe",
        [
            {"name": "../../../code/modeling_evil"},
            {"folder": ".."},
            {"task": "../code/modeling_evil"},
            {"args": {"path": "PICKLE"}},
        ],
        ids=str,
    )
    def test_a_recipe_names_nothing_but_models(self, recipe, stranger):
        with pytest.raises(ValueError, match=r"model\.json|not a complete model"):
            load_model(stranger.model({"name": "convnet", "args": {}}, **stranger.told(recipe)))

    def test_weights_are_no_pickle_and_the_best_seed_no_path(self, stranger):
        folder = stranger.model({"name": "convnet", "args": {}})
        (folder / "model.safetensors").write_bytes((folder / "evil.pth").read_bytes())
        with pytest.raises(ValueError, match="not a complete model"):
            load_model(folder)
        with pytest.raises(ValueError, match="not a complete safetensors file"):
            start_from(build("models", "network", {"backbone": {"name": "convnet"}, "head": {"name": "linear"}},
                             seed=0, outputs=1), folder)  # fmt: skip
        (folder / "run.json").write_text('{"best": "../code"}')
        with pytest.raises(ValueError, match="not the record of a run"):
            load_model(folder)


def test_published_weights_in_a_cache_are_not_unpickled(stranger, monkeypatch):
    monkeypatch.setattr(torch.hub, "_hub_dir", str(stranger.folder))
    (stranger.folder / "checkpoints").mkdir()
    file = Path(get_model_weights("resnet18")["DEFAULT"].url).name
    (stranger.folder / "evil.pth").rename(stranger.folder / "checkpoints" / file)
    with pytest.raises(ValueError, match=f"resnet18: {file} holds more than weights"):
        lookup.find("models.backbones", "torchvision").published("resnet18")


def test_types_of_arrow_are_not_unpickled(stranger):
    kind = {b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickle.dumps(Payload(stranger.folder / "ran"))}  # fmt: skip
    field = pa.field("a", pa.int64(), metadata=kind)
    pandas = json.dumps({"index_columns": [], "columns": [
        {"name": "a", "field_name": "a", "pandas_type": "object", "numpy_type": "object",
         "metadata": {"encoding": "pickle"}}]})  # fmt: skip
    table = pa.table({"a": [1, 2]}, schema=pa.schema([field], metadata={b"pandas": pandas.encode()}))
    path = stranger.folder / "x.parquet"
    pq.write_table(table, path)
    assert names_in(path, "parquet") == ["a"]
    sheet = read_sheet([path], lambda names: names, kind=None, encoding="utf-8", head=None)
    assert sheet.frame["a"].tolist() == [1, 2]


@pytest.mark.parametrize("address", ["https://evil.example/x", "models://evil.example/m/1"])
def test_a_model_is_a_folder_or_a_registered_version(address, stranger, monkeypatch):
    monkeypatch.chdir(stranger.folder)
    with pytest.raises(FileNotFoundError, match="no such folder"), model_folder(address):
        pass


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:pathlib.Path.touch [RAN]",
        "!pathlib.Path RAN",
    ],
)
def test_yaml_makes_no_objects(tag, stranger):
    params = stranger.folder / "params.yaml"
    params.write_text(f"data: {tag.replace('RAN', str(stranger.folder / 'ran'))}\n")
    with pytest.raises(ValueError, match=r"params\.yaml"):
        schema.load(params)
    kept = round_trip().load(params)["data"]  # which keeps tags to write them again
    assert type(kept).__module__.startswith("ruamel.")
