"""That nothing is left on the CPU where the device is another one; run alone, by `test_simulated_device.py`."""

import itertools

import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from conftest import objective_of, task_of
from pipeline.test_tasks import ATTENTION, CONVNET, DUAL, split_of, start  # noqa: F401
from simulated_device import PLACE, simulated

from pipelines.config.schema import typed
from pipelines.stages.pretrain import ImitationPhase
from rankgrad.datasets.vectors import score_vectors
from rankgrad.io.checkpoints import build, load_model, save_model
from rankgrad.io.starts import start_from
from rankgrad.ranks import exact_ranks
from rankgrad.training.device import make_accelerator
from rankgrad.training.loop import fit, train
from rankgrad.training.options import Imitation

ADAM = {"name": "Adam", "args": {"lr": 1e-2}}
CASES = [  # task, model, loss, whether it has a sorter, auxiliary loss
    ("label_ranking", ATTENTION, "rlsep", False, "pairwise_logistic"),
    ("score_ranking", CONVNET, "spearman", True, "l1"),
    ("multilabel", CONVNET | {"name": "wildcat"}, "sodeep_mean_average_precision", True, "multilabel_soft_margin"),
    ("retrieval", DUAL, "sodeep_recall", True, "hard_negative_triplet"),
]
VIEWS = {"label_ranking": {"views": {"count": 3, "shift": 1, "zoom": 1.1, "rotation": 2.0}}}


@pytest.fixture
def there(monkeypatch):
    """The simulated device, which `auto` then means."""
    monkeypatch.setattr(PartialState, "default_device", PLACE)
    with simulated():
        yield
    AcceleratorState._reset_state(reset_partial_state=True)


def check_place(network, device: str) -> None:
    assert next(network.parameters()).device.type == ("cpu" if device == "cpu" else PLACE.type)


def test_tensors_on_both_devices_do_not_mix(there):
    assert make_accelerator(device="auto", precision="no").device == PLACE
    with pytest.raises(RuntimeError, match="two devices"):
        torch.randn(3, device=PLACE) + torch.randn(3)
    assert (torch.ones(3, device=PLACE) + torch.tensor(1.0)).cpu().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("name", "model", "loss", "has_sorter", "auxiliary"), CASES)
def test_a_task_trains_is_resumed_and_predicts_as_on_the_cpu(
    name,
    model,
    loss,
    has_sorter,
    auxiliary,
    start,  # noqa: F811
    tmp_path,
    there,
):
    split, losses, tables = split_of(name, tmp_path, rows=8), [], []
    # Adam's first step would go by the signs of gradients that are only rounding errors.
    optimizer = {"name": "SGD", "args": {"lr": 0.1}} if has_sorter else None
    for device, stops in (("auto", (3, None)), ("cpu", (None,))):
        AcceleratorState._reset_state(reset_partial_state=True)
        folder = tmp_path / device
        for stop in stops:
            task = task_of(name, VIEWS.get(name, {}), cache=folder / "features")
            network = task.build(model, split, seed=0)
            start_from(network, start)
            sorter = build("sorters", "lstm", {"hidden": 4, "layers": 1}, seed=1, length=4)
            objective = objective_of(
                loss, sorter=sorter if has_sorter else None, sorter_optimizer=optimizer,
                auxiliary={"name": auxiliary, "args": {}, "weight": 0.5, "epochs": 1},
                device=make_accelerator(device=device, precision="no").device,
            )  # fmt: skip
            running = train(
                task, network, split, split, objective=objective, seed=0, started=True, device=device,
                checkpoint=folder / "kept",
            )  # fmt: skip
            epochs = list(itertools.islice(running, stop))
            running.close()
        check_place(network, device)
        losses.append([epoch.loss for _, epoch in epochs])
        save_model(folder / "run", network)
        for where in (PLACE, "cpu"):
            tables.append(task.predict(load_model(folder / "run", device=where), split))
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert all(table.schema == tables[0].schema and len(table) == len(tables[0]) for table in tables)


def test_a_sorter_is_pretrained_on_vectors_that_are_drawn_in_each_epoch(there):
    options = {
        "epoch_size": 32, "batch_size": 8, "epochs": 2, "patience": 2, "optimizer": ADAM,
        "schedule": {"name": "constant"},
    }  # fmt: skip
    scores, losses = score_vectors.draw(32, 8, torch.Generator().manual_seed(0))[0], []
    for device in ("auto", "cpu"):
        AcceleratorState._reset_state(reset_partial_state=True)
        place = make_accelerator(device=device, precision="no").device
        data = scores.to(place), exact_ranks(scores).to(place)
        sorter = build("sorters", "comparator", {"hidden": 4}, seed=0, length=8)
        running = fit(ImitationPhase(sorter, data, data, typed(Imitation, options)), seed=0, device=device)
        losses.append([epoch.loss for epoch in running])
        check_place(sorter, device)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
