"""Params: the shipped ones and every scale are fine, and every mistake is named with its place."""

import copy
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from pipelines.config import schema
from rankops.tasks import retrieval

ROOT = Path(__file__).parents[1]
SHIPPED = YAML(typ="safe").load(ROOT / "params.yaml")


def changed(place: str, value) -> dict:
    values = copy.deepcopy(SHIPPED)
    *parents, last = place.split("/")
    block = values
    for parent in parents:
        block = block[parent]
    if value is KeyError:
        del block[last]
    else:
        block[last] = value
    return values


def test_a_split_of_captions_has_as_many_folds_as_are_searched():
    assert schema.FOLDS == retrieval.FOLDS


RLSEP = "runs/label_ranking-rlsep"
MSE, LSTM = "transfer_runs/memorability-mse", "sorter_runs/memorability-spearman-lstm"
RECALL = "sorter_runs/retrieval-recall-lstm"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("ranked_mnst", {}, r"params.yaml: ranked_mnst: unknown key; there are .*ranked_mnist"),
        ("ranked_mnist/canvass", 64, r"ranked_mnist.canvass: unknown key; there are canvas, rows"),
        ("ranked_mnist/canvas", KeyError, "ranked_mnist.canvas: missing"),
        ("ranked_mnist/canvas", "64", r"ranked_mnist.canvas: .*integer.*found '64'"),
        ("ranked_mnist/canvas", 8, r"ranked_mnist.canvas: .*greater than or equal to 16 \(found 8\)"),
        ("ranked_mnist/canvas", 17, None),
        ("ranked_mnist/digits_per_image", [3, 12], r"digits_per_image.1: .*less than or equal to 10 \(found 12\)"),
        ("ranked_mnist/digits_per_image", [6, 3], "digits_per_image is 6 to 3, expected the smaller one first"),
        ("ranked_mnist/digits_per_image", [3], r"digits_per_image\.1: "),
        ("ranked_mnist/scale", [4.0, 1.0], "scale is 4.0 to 1.0, expected the smaller one first"),
        ("ranked_mnist/scale", [-1.0, 4.0], r"scale.0: .*greater than 0 \(found -1.0\)"),
        ("ranked_mnist/scale", [1.0, 9.0], "such a digit has 72 px on a canvas of 64"),
        ("ranked_mnist/scale", [5.0, 6.0], "canvas too small: 3 digits of scale 5.0 cover 117% of it"),
        ("ranked_mnist/scale", [0.1, 4.0], "would have 0.8 px, expected at least 2"),
        ("ranked_mnist/overlap", 1.5, "overlap: .*less than or equal to 1"),
        ("ranked_mnist/rows/train", -5, r"rows.train: .*greater than or equal to 2 \(found -5\)"),
        ("ranked_mnist/rows/train", None, r"rows.train: "),
        ("ranked_mnist", 3, "ranked_mnist: "),
        ("digits/source", "mnst", r"digits.source: .*'auto', 'mnist' or 'bundled' \(found 'mnst'\)"),
        ("compute/threads", 0, "compute.threads: .*greater than 0"),
        (
            "sorters/lstm/name",
            "lsmt",
            "sorters.lstm.name: no 'lsmt' in rankops/sorters; there are cnn, comparator, handcrafted, laplace, lstm",
        ),
        ("sorters/lstm/args/hiden", 4, "sorters.lstm.args.hiden: unknown option; lstm takes hidden, layers"),
        ("sorters/lstm/optimizer/name", "Adamw", "no 'Adamw' in torch.optim"),
        (
            "sorters/lstm/optimizer/args",
            {"learning_rate": 0.1},
            "args.learning_rate: torch.optim.AdamW takes lr, betas",
        ),
        ("sorters/lstm/optimizer/args", {"lr": float("nan")}, "args.lr: is nan, expected a number from 0"),
        ("sorters/lstm/schedule", {"name": "step"}, "factor and every_epochs go with the schedule step"),
        ("sorters/lstm/optimizer/name", "lr_scheduler", "no 'lr_scheduler' in torch.optim"),
        ("sorters/lstm/optimizer/args", {"lr": [1, 2]}, r"args.lr: is \[1(.0)?, 2(.0)?\], expected a number from 0"),
        ("sorters/lstm/optimizer/args", {"lr": True}, "args.lr: is True, expected a number from 0"),
        ("sorters/lstm/optimizer/args", {"lr": "a"}, r"optimizer: args.lr: is 'a', expected a number, .*[^\n]$"),
        ("sorters/lstm/optimizer", {"name": "LBFGS", "args": {}}, "LBFGS asks for the loss several times a step"),
        ("sorters/lstm/optimizer", {"name": "Optimizer", "args": {}}, "no 'Optimizer' in torch.optim"),
        (
            "sorters/lstm/optimizer",
            {"name": "SGD", "args": {"lr": 0.1, "nesterov": True}},
            "args.nesterov: is true without a momentum",
        ),
        ("sorters/lstm/optimizer/args", {"betas": [0.9, 1.5]}, "args.betas: is .* below 1"),
        ("sorters/lstm/optimizer/args", {"betas": 0.9}, "args.betas: is 0.9, expected two numbers"),
        ("sorters/lstm/args/layers", 2.0, r"sorters.lstm.args.layers: .*integer.*found 2.0"),
        ("sorters/lstm/args/hidden", None, r"sorters.lstm.args.hidden: .*integer.*found None"),
        ("sorters/cnn/args/output", "chanel", "sorters.cnn.args: output is 'chanel', expected 'channel' or 'position'"),
        ("sorters/cnn/args/channels", -4, "sorters.cnn.args: .*negative"),
        ("sorters/cnn/args/layers", 0, "sorters.cnn.args: layers is 0"),
        (f"{RLSEP}/model/args", {"channels": 8}, r"model.args.channels: .*list.*found 8"),
        (f"{RLSEP}/model", {"name": "threshold_network", "args": {}}, "threshold_network does not embed images"),
        ("benchmark_sorters/untrained", {"x": {"name": "cnn", "args": {}}}, "untrained.x: cnn has weights to train"),
        ("ranked_mnist/rows/test", 1, "ranked_mnist.rows.test: .*greater than or equal to 2"),
        ("sorters/lstm/batch_size", 1, "sorters.lstm.batch_size: .*greater than or equal to 2"),
        (
            f"{RLSEP}/loss/args",
            {"pair": 5},
            "runs.label_ranking-rlsep.loss.args.pair: unknown option; rlsep takes pairs",
        ),
        (f"{RLSEP}/loss/args/pairs", 0, "runs.label_ranking-rlsep.loss.args: pairs is 0, expected at least 1"),
        (f"{RLSEP}/loss/name", "lsep", "its name should begin with label_ranking-lsep"),
        (f"{RLSEP}/model/args", {"channel": [4]}, "model.args.channel: unknown option; convnet takes channels"),
        (f"{RLSEP}/seed", True, "seed: "),
        (f"{RLSEP}/model", {"name": "wildcat", "args": {}}, "wildcat does not embed images for label_ranking"),
        (f"{MSE}/start", "models/runs/retrieval-recall-lstm", None),
        ("transfer_runs/retrieval-hard_negative_triplet/loss/args/margin", -1.0, "args: margin is -1.0"),
        ("benchmark_sorters/untrained/lstm", {"name": "lstm", "args": {}}, "this name is taken by sorters.lstm"),
        ("clips/viewers", 0, "clips.viewers: .*greater than 0"),
        ("clips/zoom", 0.9, "clips.zoom: .*greater than or equal to 1"),
        ("long_tailed_mnist/least_frequent", 0.7, "least_frequent is 0.7 and most_frequent 0.5"),
        ("long_tailed_mnist/distractors", [5, 2], "distractors is 5 to 2, expected the smaller one first"),
        ("captions/digits_per_image", [1, 3], "captions compare digits, expected 2 or more"),
        ("captions/rows/test", 1002, "rows.test is 1002: .* multiple of 10"),
        (f"{MSE}/dataset", "clip", r"dataset: no 'clip'; there are captions, clips, long_tailed_mnist, ranked_mnist"),
        (f"{MSE}/dataset", "voc2007", r"no 'voc2007'.*needs a block under real_data"),
        (
            f"{MSE}/dataset",
            "ranked_mnist",
            r"ranked_mnist has no column score, .* memorability learns; clips can be had",
        ),
        (f"{MSE}/start", "models/runs/label_ranking-relsep", "start: no run 'label_ranking-relsep'"),
        (f"{MSE}/start", KeyError, "memorability-mse.start: missing"),
        (f"{MSE}/start", "./models/runs/nothing", "start: is './models/runs/nothing', expected a plain path: models/"),
        (
            f"{MSE}/start",
            "models/runs/memorability-mse",
            "start: memorability-mse, which starts from memorability-mse: expected a run that goes back",
        ),
        (f"{MSE}/model/args/channels", [8, 8], r"convnet with channels \[8, 8\], but it starts from .*\[32, 64, 96\]"),
        (f"{MSE}/model", {"name": "resnet34", "args": {}}, "model: resnet34, but it starts from"),
        (f"{MSE}/task", "retrieval", "its name should begin with retrieval-mse"),
        (f"{MSE}/loss/args/sigmoid", "yes", r"loss.args.sigmoid: .*bool.*found 'yes'"),
        (f"{LSTM}/sorter/name", "gru", "sorter.name: no sorter 'gru' is pretrained; there are cnn, comparator, lstm"),
        (f"{LSTM}/sorter/fine_tune", {"name": "Adem", "args": {}}, "no 'Adem' in torch.optim"),
        (
            f"{LSTM}/beside",
            {"name": "rlsep", "args": {}, "weight": 1.0, "epochs": 1},
            "beside.name: rlsep is no loss of memorability; there are kendall, l1, mse, ndcg, spearman",
        ),
        (f"{LSTM}/beside/weight", -1.0, "beside.weight: .*greater than 0"),
        (f"{LSTM}/beside", KeyError, "beside: missing"),
        (f"{RECALL}/model", {"name": "convnet", "args": {}}, "convnet does not embed images for retrieval; try dual_"),
        ("training/memorability/batch_size", 48, "batch_size is 48, but .* ranks groups of .*length = 32"),
        ("score_vectors/length", 24, "expected a multiple of 24"),
        ("training/memorability/head/epochs", -1, "head.epochs: .*greater than or equal to 0"),
        ("real_data", {"voc2012": {"size": 64, "args": {}, "seed": 1}}, "real_data.voc2012: no 'voc2012'"),
        ("real_data", {"clips": {"size": 64, "args": {}, "seed": 1}}, "clips is made here, not read from disk"),
        (
            "real_data",
            {"lamem": {"size": 64, "args": {"folds": 2}, "seed": 1}},
            "args.folds: unknown option; lamem takes",
        ),
        ("real_data", {"lamem": {"size": 64, "args": {"fold": "2"}, "seed": 1}}, r"args.fold: .*integer.*found '2'"),
        ("gate/judged/retrieval/guarded", ["recall_at_1"], "judged.retrieval: no figure 'recall_at_1'"),
        ("gate/judged/memorability", KeyError, "gate: judged has no block for memorability: every model is judged"),
        ("gate/judged/clips", {"figure": "spearman", "guarded": []}, "judged.clips: there is no such task; there are"),
    ],
)
def test_a_mistake_is_named(place, value, message):
    if message is None:
        schema.check(changed(place, value))
    else:
        with pytest.raises(schema.ParamsError, match=message):
            schema.check(changed(place, value))


@pytest.mark.parametrize(
    ("block", "run", "message"),
    [
        ("runs", MSE, "memorability-mse.start: unknown key"),
        ("transfer_runs", LSTM, "sorter: unknown key"),
        ("transfer_runs", "runs/label_ranking-rlsep", "start: missing"),
    ],
)
def test_a_run_in_the_wrong_block_is_named(block, run, message):
    values = copy.deepcopy(SHIPPED)
    place, name = run.split("/")
    values[block][name] = values[place].pop(name)
    with pytest.raises(schema.ParamsError, match=message):
        schema.check(values)


def test_a_loss_in_a_block_without_what_it_needs_is_named():
    values = copy.deepcopy(SHIPPED)
    run = values["sorter_runs"].pop("memorability-spearman-lstm")
    values["transfer_runs"]["memorability-spearman"] = {
        key: value for key, value in run.items() if key not in ("sorter", "beside")
    }
    with pytest.raises(schema.ParamsError, match="spearman needs a sorter: put the run under sorter_runs"):
        schema.check(values)
    run = changed(f"{LSTM}/loss", {"name": "mse", "args": {}})
    run["sorter_runs"]["memorability-mse-lstm"] = run["sorter_runs"].pop("memorability-spearman-lstm")
    with pytest.raises(schema.ParamsError, match="mse takes no sorter: put the run under"):
        schema.check(run)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"name": "convnet", "args": {"channels": 8}}, "model.args.channels: .*found 8"),
        ({"name": "nonesuch", "args": {}}, "model.name: no 'nonesuch'"),
    ],
)
def test_a_wrong_model_is_told_of_its_own_run_not_of_the_one_that_starts_from_it(model, said):
    values = changed(f"{MSE}/start", "models/runs/memorability-spearman-lstm")
    values["sorter_runs"]["memorability-spearman-lstm"]["model"] = model
    with pytest.raises(schema.ParamsError, match=f"sorter_runs.memorability-spearman-lstm.{said}"):
        schema.check(values)


@pytest.mark.parametrize("ending", ["-lr0.003", " 2", "/2", ";2", "-\u00fc", ""])
@pytest.mark.parametrize("block", ["sorters", "benchmark_sorters/untrained", "runs", "transfer_runs", "sorter_runs"])
def test_a_name_that_no_stage_can_have_is_refused(block, ending):
    values = copy.deepcopy(SHIPPED)
    named = values
    for part in block.split("/"):
        named = named[part]
    name = next(iter(named)) + ending if ending else "-2"
    named[name] = next(iter(named.values()))
    said = f"{block.replace('/', '.')}.{name}: the name {name!r} becomes part of commands and files: expected letters"
    with pytest.raises(schema.ParamsError, match=re.escape(said)):
        schema.check(values)


class TestExperiments:
    PATH = ROOT / "experiments/params.yaml"

    def message(self, tmp_path, place, value):
        values = YAML(typ="safe").load(self.PATH)
        *parents, last = place.split("/")
        block = values
        for parent in parents:
            block = block[parent]
        block[last] = value
        YAML().dump(values, tmp_path / "params.yaml")
        with pytest.raises(schema.ParamsError) as error:
            schema.load_experiments(schema.check(SHIPPED), tmp_path / "params.yaml")
        return str(error.value)

    def test_the_shipped_ones_are_fine(self):
        plans = schema.load_experiments(schema.check(SHIPPED), self.PATH).comparisons
        assert all(plan.seeds >= 3 for plan in plans.values())
        assert len(plans["memorability"].settings("mse")) == 8

    @pytest.mark.parametrize(
        ("place", "value", "expected"),
        [
            ("retrieval/methods/recall-lstm/grid/beside.weight", [0.5, 1.0], "16 different settings, expected .* = 8"),
            ("memorability/methods/mse/grid/loss.args.sigmoid", [True, True], "4 different settings"),
            ("memorability/methods/mse/grid", {"training.head.epoch": [1, 2]}, "there is no training.head.epoch"),
            (
                "label_ranking/methods/rlsep-averaged_views/grid/training.views",
                [{"count": 0, "shift": 3, "zoom": 1.1, "rotation": 5.0}],
                r"comparisons.label_ranking.methods.rlsep-averaged_views.training.views.count: .*1 \(found 0\)$",
            ),
            (
                "label_ranking/methods/rlsep/grid/training.scorer.zoom",
                [0.5],
                r"comparisons.label_ranking.methods.rlsep.training.scorer.zoom: .*1 \(found 0.5\)$",
            ),
            (
                "label_ranking/methods/rlsep/grid/beside",
                [7],
                "comparisons.label_ranking.methods.rlsep.beside: .*found 7",
            ),
            (
                "memorability/methods/spearman-lstm/grid/beside.epochs",
                [1, 0],
                r"comparisons.memorability.methods.spearman-lstm.beside.epochs: .*0 \(found 0\)$",
            ),
            (
                "label_ranking/methods/rlsep-label_attention/grid/model",
                ["convnet"],
                "label_ranking.methods.rlsep-label_attention.model: .*(found 'convnet')",
            ),
            (
                "label_ranking/methods/rlsep-label_attention/grid/model.args.channels",
                [[4, 8]],
                "grid: model.args.channels lies within model, which is there too",
            ),
            (
                "label_ranking/methods/rlsep-label_attention/grid/model",
                [{"name": "label_attention", "args": {"backbone": "resnet34", "channels": [4]}}],
                "only the convnet has any, and backbone is resnet34",
            ),
            ("memorability/methods/mse/grid", {"model": [{"name": "convnet"}]}, "there is no model in the method"),
            (
                "label_ranking/methods/rlsep-label_attention/grid/model",
                [{"name": "wildcat", "args": {}}],
                "methods.rlsep-label_attention.model.name: wildcat does not embed images for label_ranking",
            ),
            ("memorability/methods/mse/loss/name", "msse", "no 'msse' in rankops/losses"),
            ("memorability/methods/mse/loss", {"name": "rlsep", "args": {"sigmoid": True}}, "rlsep takes pairs"),
            ("memorability/methods/spearman-lstm/sorter", None, "spearman needs a sorter"),
            (
                "memorability/methods/spearman-lstm/sorter",
                "gru",
                "no sorter 'gru'; there are cnn, comparator, lstm, handcrafted",
            ),
            ("memorability/training/batch_size", 50, "batches of 50 do not make groups of .* = 32"),
            ("memorability/figure", "spearmann", "no 'spearmann' of memorability"),
            ("memorability/dataset", "clip", "no 'clip'; there are"),
            ("memorability/baseline", "ols", "no baseline 'ols'"),
            ("memorability/methods/mse 2", {}, "comparisons.memorability.methods.mse 2: the name 'mse 2' becomes part"),
            ("retrieval/training/least_count", 0, "least_count"),
            (
                "memorability/methods/mse/grid/training.head.optimizer.args.lr",
                [-1.0, 1.0, 2.0, 3.0],
                "comparisons.memorability.methods.mse.training.head.optimizer: args.lr: is -1.0, expected",
            ),
            ("label_ranking/figure", "ranked.f1", "figure: ranked.f1 is not measured on validation"),
            ("label_ranking/shown", ["ranked.accurate"], "figure: no 'ranked.accurate' of label_ranking"),
            ("label_ranking/start", "models/runs/label_ranking-rlsep", "label ranking has no start"),
            ("memorability/start", None, "start is None"),
            ("memorability/methods/mse/fresh", True, "methods.mse: fresh is of label ranking"),
            ("label_ranking/methods/rlsep/viewers", 5, "methods.rlsep: .*viewers and fine_tune are of other tasks"),
            ("label_ranking/dataset", "captions", "rlsep-fresh_scenes.fresh: captions cannot be drawn anew"),
            ("label_ranking/methods/rlsep/sorter", "lstm", "sorter: lstm is pretrained; expected one that needs no"),
            ("label_ranking/methods/rlsep/sorter", "laplace", "sorter is laplace: expected one for a loss"),
            (
                "memorability/methods/spearman-lstm/sorter_args",
                {"softness": 1.0},
                "sorter_args: lstm is no sorter of benchmark_sorters.untrained",
            ),
        ],
    )
    def test_a_mistake_is_named(self, tmp_path, place, value, expected):
        assert re.search(expected, self.message(tmp_path, f"comparisons/{place}", value))

    @pytest.mark.parametrize(
        ("place", "value", "expected"),
        [
            ("batch_size", 10_001, "batch_size is 10001, expected at most half of rows = 20000"),
            ("batch_size", 500, "methods.lstm: batches of 500 do not make groups of score_vectors.length = 32"),
            ("methods/hinge_ap/sorter", "gru", "methods.hinge_ap.sorter: no sorter 'gru'; there are cnn"),
            ("methods/hinge_ap/loss/args", {"pairs": 3}, "methods.hinge_ap.loss.args.pairs: unknown option"),
        ],
    )
    def test_a_mistake_in_the_synthetic_experiment_is_named(self, tmp_path, place, value, expected):
        assert expected in self.message(tmp_path, f"synthetic_precision/{place}", value)

    @pytest.mark.parametrize(
        ("place", "value", "expected"),
        [
            (
                "comparison",
                "memorable",
                "findings.the_recipe.comparison: no comparison 'memorable'; there are label",
            ),
            (
                "pairs",
                [["rlsep", "rlsep-sgd"]],
                "findings.the_recipe.pairs: label_ranking has no method 'rlsep-sgd'",
            ),
            ("pairs", [["rlsep"]], "findings.the_recipe.pairs.0: List should have at least 2 items"),
            (
                "contrasts",
                [["rlsep", "lsep", "rlsep", "rlsep-sgd"]],
                "findings.the_recipe.contrasts: label_ranking has no method 'rlsep-sgd'",
            ),
        ],
    )
    def test_a_finding_of_what_is_not_compared_is_refused(self, tmp_path, place, value, expected):
        assert expected in self.message(tmp_path, f"findings/the_recipe/{place}", value)


def test_networks_are_not_compiled_without_a_compiler(monkeypatch):
    values = changed("compute/compile", True)
    schema.check(values)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(schema.ParamsError, match=r"compute.compile: it needs a C\+\+ compiler, .* no no-such-compiler"):
        schema.check(values)


def test_for_a_gpu_networks_are_compiled_by_another_compiler(monkeypatch, tmp_path):
    values = changed("compute/compile", True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(schema.ParamsError, match=r"compute.compile: it needs Python's headers, .*Python\.h"):
        schema.check(values)
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CXX", "no-such-compiler")  # which is not asked
    schema.check(values)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(schema.ParamsError, match="it needs a C compiler, .* no no-such-compiler"):
        schema.check(values)


def test_a_run_takes_a_sorter_whose_key_is_its_name(monkeypatch):
    values = changed("sorters/lstm_wide", SHIPPED["sorters"]["lstm"])
    schema.check(values)
    values["sorter_runs"]["memorability-spearman-lstm"]["sorter"]["name"] = "lstm_wide"
    with pytest.raises(schema.ParamsError, match="sorter.name: lstm_wide is a sorter lstm; .* the block sorters.lstm"):
        schema.check(values)


def test_all_mistakes_are_named_at_once():
    values = changed("ranked_mnist/canvass", 64)
    values["compute"]["threads"] = 0
    with pytest.raises(schema.ParamsError, match=r"(?s)compute.threads.*ranked_mnist.canvass"):
        schema.check(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [1", "not YAML"), ("", "params.yaml"), ("- 1", "params.yaml")],
    ids=["broken", "empty", "list"],
)
def test_a_file_that_holds_no_params_is_named(tmp_path, text, message):
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(schema.ParamsError, match=message):
        schema.load(tmp_path / "params.yaml")
    with pytest.raises(schema.ParamsError, match="no such file"):
        schema.load(tmp_path / "elsewhere.yaml")


def test_numbers_are_read_as_yaml_1_2(tmp_path):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text().replace("5.0e-3", "5e-3"))
    assert schema.load(tmp_path / "params.yaml").sorters["lstm"].optimizer.args["lr"] == 0.005


def test_moments_of_an_optimizer_must_be_below_1():
    with pytest.raises(ValidationError, match="expected two numbers from 0 and below 1"):
        schema.Steps(name="AdamW", args={"betas": [0.9, 1.0]})


def test_deliveries_of_twins_are_even():
    captions = schema.load(ROOT / "params.yaml").captions
    few = 3 / captions.rows.train
    first, *others = captions.deliveries(schema.Data(snapshot=3, growth=few))["train"]
    assert (first, others) == (captions.rows.train, [4, 4])  # 3, made even
