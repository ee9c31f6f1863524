"""Runs: seeds and settings as jobs that end in the same bits however they are run, and are resumed one by one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from pipelines.config.plan import merged
from pipelines.config.schema import Dataset, check_shapes
from pipelines.stages import evaluate
from pipelines.stages import train as stage
from rankgrad.io import results
from rankgrad.io.checkpoints import load_model
from rankgrad.io.parquet import encode_images
from rankgrad.tasks.score_ranking import ScoreRanking

from conftest import PHASE, params_of  # isort: skip
from rows import CONVNET, written  # isort: skip

RUN = {
    "task": "score_ranking", "dataset": "clips", "model": {"name": "linear", "args": {}, "backbone": CONVNET},
    "start": "models/runs/none", "loss": {"name": "mse", "args": {}}, "sorter": "none", "auxiliary": {"name": "none"},
    "seeds": [1, 2, 3],
}  # fmt: skip
TRAINING = {"batch_size": 8, "probe": PHASE, "finetune": PHASE | {"shift": 1}}
SHARED = {"compute": {"threads": 1}, "jobs": {"count": 1}, "training": {"score_ranking": TRAINING}}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with clips of noise, in which stages can be called; gives params with changes put in."""
    clips = tmp_path / "data/clips"
    clips.mkdir(parents=True)
    written("score_ranking", "frames", clips)
    shutil.copyfile(clips / "val.parquet", clips / "test.parquet")
    monkeypatch.chdir(tmp_path)
    return lambda **changes: check_shapes(merged(params_of(SHARED | {"runs": {"mine": RUN}}), changes))


def run(params, name="mine") -> dict[str, bytes]:
    """Train; return the contents of each file by its path."""
    stage.main(params, name)
    folder = Path("models/runs", name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bits(project):
    distributed = pytest.importorskip("distributed")
    seeds = {"mine": {"seeds": [1, 2, 3, 4, 5]}}
    serial = run(project(runs=seeds))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        jobs = {"count": 2, "backend": "dask", "address": cluster.scheduler_address}
        assert run(project(runs=seeds, jobs=jobs)) == serial


def test_a_grid_is_chosen_from_by_the_mean_of_three_seeds(project):
    key = "training.finetune.optimizer.args.lr"
    params = project(runs={"mine": {"seeds": [1, 2, 3, 4], "grid": {key: [3e-3, 1e-9]}}})
    record = json.loads(run(params)["run.json"])
    assert [sorted(tried["validation"]) for tried in record["tried"]] == [["1", "2", "3"]] * 2
    means = [np.mean(list(tried["validation"].values())) for tried in record["tried"]]
    assert record["setting"] == record["tried"][int(np.argmax(means))]["setting"]
    assert sorted(record["validation"]) == ["1", "2", "3", "4"]


def test_a_refit_learns_training_and_validation_rows_for_as_many_epochs_as_were_best(project):
    once = {"epochs": 1}
    training = {"score_ranking": TRAINING | {"probe": PHASE | once, "finetune": PHASE | once | {"shift": 1}}}
    before = run(project(training=training))
    made = run(project(training=training, runs={"mine": {"refit": True}}))
    assert made["run.json"] == before["run.json"]
    train, val = (pq.read_table(f"data/clips/{split}.parquet") for split in ("train", "val"))
    pq.write_table(pa.concat_tables([train, val]), "data/clips/train.parquet")
    expected = run(project(training=training))
    for seed in (1, 2, 3):
        assert made[f"seed{seed}/history.csv"] == before[f"seed{seed}/history.csv"]
        weights = f"seed{seed}/model.safetensors"
        assert made[weights] == expected[weights] != before[weights]
    assert not list(Path(".checkpoints/train/mine").iterdir())


def test_a_refit_ends_each_phase_at_its_best_epoch_and_leaves_out_one_that_was_worse(tmp_path):
    rows = ["phase,epoch,best", "probe,1,1", "probe,2,1", "probe,3,0", "finetune,4,0", "finetune,5,1", "finetune,6,0"]
    history = tmp_path / "history.csv"
    for last, expected in ((None, {"probe": 2, "finetune": 2}), (5, {"probe": 2})):
        history.write_text("\n".join(rows[:last]))
        assert stage.stops_in(history) == expected


FOLDS = ("-fold1", "-fold2", "-fold3")


@pytest.fixture
def folded(project):
    """Params of data whose 24 rows are in three folds; of a row all pixels and the target tell its fold."""
    pictures = encode_images(np.repeat(np.arange(1, 25, dtype=np.uint8), 256).reshape(-1, 16, 16), threads=1)
    frames = pa.ListArray.from_arrays(pa.array(np.arange(25), pa.int32()), pictures)
    folds = 1 + np.arange(24) * 7 % 3
    table = pa.table({"frames": frames, "target": np.linspace(0, 1, 24, dtype=np.float32), "fold": folds})
    for split in ("train", "val", "test"):
        pq.write_table(table, f"data/clips/{split}.parquet")
    args = {"file": "x.csv", "frames": "a", "target": "b"}
    block = {"name": "table", "raw": "data/raw/x", "size": 16, "args": args, "rows": None, "folds": 3, "seed": 1}
    clips = Dataset.model_validate(block)
    return lambda **changes: project(**changes).model_copy(update={"datasets": {"clips": clips}})


def test_seeds_and_folds_end_in_the_same_bits_side_by_side(folded):
    serial = run(folded(runs={"mine": {"seeds": [1, 2]}}))
    models = {name.split("/")[0] for name in serial if name.endswith("model.safetensors")}
    assert models == {f"seed{seed}{fold}" for seed in (1, 2) for fold in ("", *FOLDS)}
    assert len({serial[f"{name}/model.safetensors"] for name in models}) == 8
    record, best = json.loads(serial["run.json"]), load_model("models/runs/mine").state_dict()
    assert record["validation"][str(record["best"])] == max(record["validation"].values())
    assert record["validation"]["1"] == np.mean([fold["validation"]["1"] for fold in record["folds"]])
    first = load_model(f"models/runs/mine/seed{record['best']}").state_dict()
    assert all(best[name].equal(values) for name, values in first.items())
    assert run(folded(jobs={"count": 2}, runs={"mine": {"seeds": [1, 2]}})) == serial
    assert not list(Path(".checkpoints/train/mine").iterdir())


def test_each_row_is_predicted_by_the_model_of_its_fold_which_did_not_learn_from_it(folded, monkeypatch):
    params = folded(runs={"mine": {"seeds": [1]}}, evaluate={"resamples": 20})
    load, learned = ScoreRanking.load, []

    def noted(*arguments, **options):
        split = load(*arguments, **options)
        learned.append((split.inputs.items[:, 0, 0, 0].int() - 1).tolist())
        return split

    with monkeypatch.context() as patch:
        patch.setattr(ScoreRanking, "load", noted)
        run(params)
    folds = pq.read_table("data/clips/test.parquet")["fold"].to_numpy()
    to_register, *tested = zip(learned[::2], learned[1::2], strict=True)
    assert sorted(to_register[0] + to_register[1]) == [*range(24)]
    assert set(folds[to_register[1]]) == {1}
    for fold, (train, val) in enumerate(tested, 1):
        assert set(folds[val]) == {fold % 3 + 1}
        assert sorted(train + val) == np.flatnonzero(folds != fold).tolist()
    evaluate.main(params, "mine")
    table = pq.read_table("predictions/mine.parquet")
    assert table["id"].to_pylist() == [*range(24)]
    assert table["fold"].to_pylist() == [*folds]
    correlations, task = [], ScoreRanking()
    every = task.load("data/clips", "test", threads=1)
    for fold in (1, 2, 3):
        own = table.filter(pa.array(folds == fold))
        scores = task.predict(load_model(f"models/runs/mine/seed1-fold{fold}"), every)["score"].to_numpy()
        assert own["score"].to_pylist() == pytest.approx(scores[folds == fold].tolist(), abs=1e-6)
        correlations.append(spearmanr(own["score"], own["target"])[0])
    assert results.read("metrics/runs").by_seed("mine", "spearman")[1] == pytest.approx(np.mean(correlations))


def test_with_folds_only_the_model_to_register_is_refitted_on_all_rows_for_the_middle_best_epoch(folded, monkeypatch):
    def params(refit: bool):
        return folded(runs={"mine": {"seeds": [1], "refit": refit}})

    before, load, fit, learned, stops = run(params(False)), ScoreRanking.load, stage.train, [], []
    best_epochs = iter([1, 3, 2, 9])

    def noted(*arguments, **options):
        split = load(*arguments, **options)
        learned.append((split.inputs.items[:, 0, 0, 0].int() - 1).tolist())
        return split

    def trained(*arguments, **options):
        stops.append(options["stops"])
        return fit(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreRanking, "load", noted)
        patch.setattr(stage, "train", trained)
        patch.setattr(stage, "stops_in", lambda history: {"finetune": next(best_epochs)})
        made = run(params(True))
    assert any(sorted(rows) == [*range(24)] for rows in learned)
    assert stops == [None] * 4 + [{"finetune": 2}]
    changed = {name for name in made if made[name] != before[name]}
    assert changed == {"seed1/model.json", "seed1/model.safetensors"}


def test_what_diverges_is_named_what_is_done_is_kept_and_no_result_of_another_grid_is_taken(project):
    def grid(*rates):
        key = "training.finetune.optimizer.args.lr"
        return project(runs={"mine": {"seeds": [1, 2], "grid": {key: list(rates)}}})

    expected = run(grid(1e-2, 3e-3))
    done = []
    for _ in range(2):
        with pytest.raises(ValueError, match=r"mine: seed1, .*lr=1e\+30 failed: .*nan"):
            stage.main(grid(1e-3, 1e30), "mine")
        results = Path(".checkpoints/train/mine").rglob("result/model.safetensors")
        done.append({str(path): path.stat().st_mtime_ns for path in results})
    assert done[0] == done[1]  # trained once
    assert sorted(path.split("/")[-3][:5] for path in done[0]) == ["seed1", "seed2"]
    assert run(grid(1e-2, 3e-3)) == expected


@pytest.mark.parametrize(("before", "seeds"), [([1, 2], [1, 2]), ([5], [5, 5])])
def test_each_seed_starts_from_the_model_of_its_own_seed_or_all_from_the_only_one(project, before, seeds):
    runs = {"mine": {"seeds": [1, 2], "start": "models/runs/first"}}
    first = project().model_dump()["runs"]["mine"] | {"seeds": before}
    params = project(runs=runs | {"first": first})
    run(params, "first")
    contents = run(params)
    starts = [json.loads(contents[f"seed{seed}/model.json"])["start"] for seed in (1, 2)]
    assert [list(start) for start in starts] == [[f"models/runs/first/seed{seed}/model.safetensors"] for seed in seeds]
    shared = "models/runs/first/seed5" if before == [5] else None
    assert json.loads(contents["run.json"]).get("shared_start") == shared
