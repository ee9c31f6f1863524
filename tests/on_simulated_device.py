"""That nothing is left on the CPU where the device is another one; run by `test_simulated_device.py`, alone."""

import itertools
import shutil
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from simulated_device import PLACE, simulated
from test_tasks import CASES, CHANNELS, CONVNET, TASKS, TRAINING, run_of, splits, start, step  # noqa: F401

from pipelines.config.schema import load
from pipelines.stages import pretrain, score_vectors
from rankops.datasets.scenes import drawing
from rankops.io.checkpoints import build, load_model, save_model
from rankops.metrics.dense_ranks import dense_ranks
from rankops.sorters.laplace import Laplace
from rankops.tasks import label_ranking
from rankops.training.loop import compute


@pytest.fixture
def there(monkeypatch):
    """The simulated device, which `auto` then means."""
    monkeypatch.setattr(PartialState, "default_device", PLACE)
    with simulated():
        yield
    AcceleratorState._reset_state(reset_partial_state=True)


def test_tensors_on_both_devices_do_not_mix(there):
    assert compute(device="auto", precision="no").device == PLACE
    with pytest.raises(RuntimeError, match="two devices"):
        torch.randn(3, device=PLACE) + torch.randn(3)
    assert (torch.ones(3, device=PLACE) + torch.tensor(1.0)).cpu().tolist() == [2.0, 2.0, 2.0]


def test_models_are_made_on_the_cpu_whatever_device_is_the_default(tmp_path, there):
    wanted = build("models", "convnet", CHANNELS, seed=3, outputs=2).state_dict()
    with torch.device(PLACE):
        made = build("models", "convnet", CHANNELS, seed=3, outputs=2)
        assert all(weights.equal(wanted[key]) for key, weights in made.state_dict().items())
        save_model(tmp_path, made)
        assert all(weights.device == PLACE for weights in load_model(tmp_path, device=PLACE).state_dict().values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}-{case[3]}")
def test_a_task_trains_is_resumed_and_predicts_as_on_the_cpu(case, start, generator, tmp_path, there):  # noqa: F811
    task, data = TASKS[case[0]], splits(case[0], generator)
    fine_tune = {"name": "Adam", "args": {"lr": 1e-2}} if case[3] == "lstm" else None
    losses, tables = [], []
    for device, stops in (("auto", (1, 3, None)), ("cpu", (None,))):
        AcceleratorState._reset_state(reset_partial_state=True)
        for stop in stops:
            running = run_of(case, data, start, fine_tune=fine_tune, device=device, checkpoint=tmp_path / device)
            epochs = list(itertools.islice(running, stop))
            running.close()
        assert next(epochs[-1][2].network.parameters()).device.type == ("cpu" if device == "cpu" else PLACE.type)
        losses.append([epoch.loss for _, epoch, _ in epochs])
        task.save(tmp_path / f"{device}-run", epochs[-1][2])
        for place in (PLACE, "cpu"):
            tables.append(task.predictions(task.load(tmp_path / f"{device}-run", device=place), data))
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert all(table.schema == tables[0].schema and len(table) == len(tables[0]) for table in tables)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("loss", ["rlsep", "spearman_of_label_ranks"])
def test_so_does_label_ranking(loss, fresh, generator, tmp_path, there):
    images = torch.randint(0, 256, (24, 32, 32), generator=generator, dtype=torch.uint8)
    split = images, dense_ranks(torch.randint(0, 4, (24, 5), generator=generator))
    optimizer = {"name": "AdamW", "args": {"lr": 1e-3}, "clip": 1.0}
    training = {
        "scorer": step(2) | {"batch_size": 8, "shift": 2, "zoom": 1.1, "rotation": 5.0, "average": 0.9}
        | {"optimizer": optimizer},
        "thresholds": step(2) | {"batch_size": 8, "hidden": 8},
        "views": {"count": 3, "shift": 1, "zoom": 1.1, "rotation": 2.0},
    }  # fmt: skip
    options = {
        "model": CONVNET, "loss": {"name": loss, "args": {"pairs": 3} if loss == "rlsep" else {}}, "seed": 0,
        "training": training, "fresh": (lambda count, generator: split) if fresh else None,
        "sorter": None if loss == "rlsep" else Laplace(softness=0.2),
    }  # fmt: skip
    losses = []
    for device, stops in (("auto", (1, None)), ("cpu", (None,))):
        AcceleratorState._reset_state(reset_partial_state=True)
        for stop in stops:
            running = label_ranking.train(split, split, device=device, checkpoint=tmp_path / device, **options)
            epochs = list(itertools.islice(running, stop))
            running.close()
        losses.append([epoch.loss for _, epoch, _ in epochs])
    label_ranking.save(tmp_path / "run", epochs[-1][2])
    found = label_ranking.load(tmp_path / "run", device=PLACE)(images)
    wanted = label_ranking.load(tmp_path / "run")(images)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.device.type == "cpu"
        assert ours.allclose(theirs, atol=1e-5)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.parametrize("vectors", ["fresh", "stored"])
@pytest.mark.parametrize("name", ["cnn", "comparator", "lstm"])
def test_a_sorter_is_pretrained(name, vectors, tmp_path, monkeypatch, there):
    params = load(Path(__file__).parents[1] / "params.yaml")
    few = params.score_vectors.rows.model_copy(update={"train": 64, "val": 20, "test": 20})
    params = params.model_copy(
        update={"score_vectors": params.score_vectors.model_copy(update={"length": 8, "rows": few})}
    )
    small = {"cnn": {"channels": 4, "layers": 2}, "comparator": {"hidden": 4}, "lstm": {"hidden": 4, "layers": 1}}
    options = params.sorters[name].model_copy(
        update={"epochs": 2, "epoch_size": 32, "batch_size": 8, "vectors": vectors, "args": small[name]}
    )
    monkeypatch.chdir(tmp_path)
    score_vectors.main(params)
    losses = []
    for device in ("auto", "cpu"):
        AcceleratorState._reset_state(reset_partial_state=True)
        chosen = params.model_copy(update={"compute": params.compute.model_copy(update={"device": device})})
        sorter, epochs, checkpoint = pretrain.pretrained(chosen, options, name)
        assert next(sorter.parameters()).device.type == ("cpu" if device == "cpu" else PLACE.type)
        losses.append([epoch.loss for epoch in epochs])
        shutil.rmtree(checkpoint)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_scenes_are_drawn(generator, there):
    glyphs = torch.randint(0, 256, (40, 4, 28, 28), dtype=torch.uint8, generator=generator)
    sizes = torch.randint(0, 3, (40, 4), generator=generator) * 10.0
    tops, lefts = torch.rand(2, 40, 4, generator=generator) * 30
    wanted = drawing.draw(glyphs, sizes, tops, lefts, canvas=64)
    drawn = drawing.draw(*(part.to(PLACE) for part in (glyphs, sizes, tops, lefts)), canvas=64)
    assert drawn.device == PLACE
    assert (drawn.cpu().int() - wanted.int()).abs().max() <= 1
