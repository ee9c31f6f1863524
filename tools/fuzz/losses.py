"""Losses on tensors of any shape, type and size, and as they change with their inputs; tests have their formulas."""

import inspect
from typing import Any

import numpy as np
import torch

from rankops import lookup
from tools.fuzz.attempt import WrongAnswer, refused

PLACE = r"\b(scores|target|labels|label_ranks|positives|mask|weights|sorter|dim|k|reduction)\b"
NAMES = [name for name in lookup.names("losses") if name != "none"]
KINDS = ("float32", "float64", "float16", "bfloat16")
FAULTS = ("nan", "infinite", "shape", "empty", "type", "mask", "weights", "negative weights", "no tensor", "reduction")


def draw(random: np.random.Generator) -> dict[str, Any]:
    name = NAMES[random.integers(len(NAMES))]
    square = "positives" in inspect.signature(lookup.find("losses", name)).parameters
    side = int(random.choice([1, 2, 3, 5, 9, 33]))
    others = [int(one) for one in random.integers(1, 6, random.integers(0, 3))]
    return {
        "name": name, "seed": int(random.integers(2**31)),
        "shape": [side, side] if square else [*others, side],
        "kind": str(random.choice(KINDS, p=[0.5, 0.3, 0.1, 0.1])), "power": int(random.integers(-4, 5)),
        "levels": int(random.choice([0, 1, 2, 5])), "masked": bool(random.integers(2)),
        "weighted": int(random.integers(3)), "dim": int(random.choice([-1, -1, -1, 0])),
        "fault": str(random.choice(FAULTS)) if random.random() < 0.2 else None,
    }  # fmt: skip


def check(name: str, seed: int, fault: str | None, **about: Any) -> None:
    loss, random = lookup.find("losses", name), np.random.default_rng(seed)
    parameters = inspect.signature(loss).parameters
    given = _inputs(list(parameters)[1], random, **about)
    given = {key: value for key, value in given.items() if key in parameters}
    if "generator" in parameters:
        given["generator"] = torch.Generator().manual_seed(0)
    if fault:
        return _check_refusal(loss, given, fault, parameters)
    scores = given["scores"].requires_grad_()
    try:
        value = loss(**given)
    except ValueError as error:
        if about["shape"][about["dim"]] > 1 and "least" not in str(error) and "k is" not in str(error):
            raise
        return
    value.backward()
    gradient = scores.new_zeros(()) if scores.grad is None else scores.grad
    # Ranks ask for a gradient of 1 / deviation, which half precision cannot hold of scores that are all but equal.
    held = ~gradient.isnan() if "16" in about["kind"] else gradient.isfinite()
    if not value.isfinite() & held.all():
        raise WrongAnswer("not a finite loss and gradient")
    _compare("twice the weights", value, loss(**given | _doubled(given)).item())
    if "generator" not in given:
        _compare("another order", value, loss(**_flipped(given)).item())
        _compare("padding", value, loss(**_padded(given, list(parameters)[1])).item())


def _check_refusal(loss: Any, given: dict[str, Any], fault: str, parameters: Any) -> None:
    with refused(PLACE):
        loss(**_spoilt(given, fault, list(parameters)[1]))
        if not (fault == "weights" and "weights" not in parameters):
            raise WrongAnswer(f"took {fault}")


def _inputs(truth: str, random: np.random.Generator, *, shape, kind, power, levels, masked, weighted, dim) -> dict:
    made = random.normal(size=shape) * 10.0 ** (min(power, 2) if "16" in kind else power)
    scores = torch.as_tensor(made if levels != 1 else np.round(made), dtype=getattr(torch, kind))
    values = random.integers(0, max(levels, 2), size=shape) if levels or truth != "target" else random.random(shape)
    values = values % 2 if truth in ("labels", "positives") else values
    given = {"scores": scores, truth: torch.as_tensor(values, dtype=None if values.dtype != float else scores.dtype)}
    if dim == 0 and len(shape) > 1:
        given["dim"] = dim
    if masked:
        given["mask"] = torch.as_tensor(random.random(shape) < 0.7)
    if weighted:
        weights = random.random(shape) * 10.0 ** random.integers(-3, 4)
        given["weights"] = torch.as_tensor(weights * (random.random(shape) < 0.8 if weighted == 2 else 1.0))
    return given


def _spoilt(given: dict[str, Any], fault: str, truth: str) -> dict[str, Any]:
    scores, first = given["scores"], (0,) * given["scores"].dim()
    spoilt = scores.clone()
    spoilt[first] = {"nan": torch.nan, "infinite": torch.inf}.get(fault, 0.0)
    return (given | {"mask": None}) | {
        "nan": {"scores": spoilt}, "infinite": {"scores": spoilt}, "shape": {truth: given[truth][..., :-1]},
        "empty": {"scores": scores[..., :0], truth: given[truth][..., :0], "weights": None},
        "type": {"scores": scores.to(torch.int64)}, "mask": {"mask": torch.ones(scores.shape)},
        "weights": {"weights": torch.ones(*scores.shape, 2)},
        "negative weights": {"weights": -torch.ones(scores.shape)},
        "no tensor": {truth: given[truth].tolist()}, "reduction": {"reduction": "median"},
    }[fault]  # fmt: skip


def _compare(what: str, value: torch.Tensor, other: float) -> None:
    close = 1e-9 if value.dtype == torch.float64 else 2e-3
    if not np.isclose(value.item(), other, rtol=close, atol=close):
        raise WrongAnswer(f"by {what} {other}, found {value.item()}")


def _doubled(given: dict[str, Any]) -> dict[str, Any]:
    return {"weights": 2 * given["weights"]} if "weights" in given else {}


def _flipped(given: dict[str, Any]) -> dict[str, Any]:
    flipped = {key: one.flip([*range(one.dim())]) for key, one in given.items() if torch.is_tensor(one)}
    return given | flipped


def _padded(given: dict[str, Any], truth: str) -> dict[str, Any]:
    """Behind each group, places that the mask leaves out: of NaN, and of a truth that would count."""
    dim = given.get("dim", -1)
    fill = {"scores": torch.nan, truth: 1, "mask": False, "weights": 3.0}
    given = {"mask": torch.ones(given["scores"].shape, dtype=torch.bool)} | given
    more = {
        key: torch.cat([one, torch.full_like(one.narrow(dim, 0, 1), fill[key])], dim)
        for key, one in given.items()
        if torch.is_tensor(one)
    }
    return given | {key: one.detach() for key, one in more.items()}
