"""Results of scales that a laptop cannot rebuild, as small JSON files in git, with what made them.

On the machine that made the results, where that is another one: `python -m pipelines.reporting.archive > machine.json`.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from ruamel.yaml import YAML, YAMLError
from scipy import stats

from pipelines.ops.git import git
from pipelines.ops.messages import on_one_line
from pipelines.reporting.html import Section
from pipelines.reporting.papers import RANKED_MNIST, SUBSET
from rankops.io.atomic import replaced_file

__all__ = ["collected", "keep", "machine", "read_machine", "sections", "table"]

COMPARISON = "label_ranking"
DATASET = "ranked_mnist"
STAGES = f"experiments/dvc.yaml:compare_{COMPARISON}"
FOLDER = Path("results/paper")
# What decides about the results; all of it must be in the commit that is written down.
COMMITTED = ("src", "pipelines", "params.yaml", "experiments")
EXACT = "ranked.exact_match"
MEAN_AVERAGE_PRECISION = "ranked.mean_average_precision"
TITLES = {
    EXACT: "ranked 0-1", MEAN_AVERAGE_PRECISION: "ranked mAP", "ranked.accuracy": "ranked accuracy",
    "ranked.f1": "ranked F1", "ranked.precision": "ranked precision", "ranked.recall": "ranked recall",
    "unranked.exact_match": "unranked 0-1", "unranked.accuracy": "unranked accuracy", "unranked.f1": "unranked F1",
    "unranked.precision": "unranked precision", "unranked.recall": "unranked recall",
}  # fmt: skip
RECIPE = (
    "The paper's networks are MobileNetV3-Small, on images of 224 px, with up to 300 epochs of SGD at 0.001 and a "
    "patience of 20."
)
OF_SUBSET = (
    " Its figures are means of 30 networks on 100 test images; the ± is a deviation by the table's caption, a standard "
    "error by the text."
)


def machine() -> dict[str, str]:
    """The hardware of this machine, and its versions of Python and PyTorch."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.is_file() else None
    cpu = found[1] if found else platform.processor() or platform.machine()
    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "hardware": f"{', '.join(gpus) or 'no GPU'}; {os.cpu_count()} cores of {cpu}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def read_machine(path: Path) -> dict[str, str]:
    """What `machine` said elsewhere.

    Raises:
        ValueError: the file is not that.
    """
    made_by = f"python -m pipelines.reporting.archive > {path.name}"
    found, expected = _read(path, made_by=made_by), sorted(machine())
    if not isinstance(found, dict) or sorted(found) != expected:
        raise ValueError(
            f"{path}: expected {', '.join(expected)}, as `python -m pipelines.reporting.archive` writes them"
        )
    return found


def _commit() -> str:
    """The commit that is checked out.

    Raises:
        ValueError: what decides about the results differs from it.
    """
    changed = [line[3:] for line in git(".", "status", "--porcelain", "--", *COMMITTED).splitlines()]
    if changed:
        raise ValueError(
            f"not in a commit: {', '.join(changed)}. Results are kept with the commit that made them: commit these, "
            "params and experiments/dvc.lock included, and keep the results then"
        )
    return git(".", "rev-parse", "HEAD")


def _read(path: Path, *, made_by: str = f"dvc repro {STAGES}") -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"no {path}: run `{made_by}` where it comes from")
    try:
        return YAML(typ="safe").load(path) if path.suffix != ".json" else json.loads(path.read_text())
    except (ValueError, YAMLError) as error:
        raise ValueError(f"{path}: not {path.suffix[1:].upper()}: {on_one_line(error)}") from error


def _parts(entry: dict) -> dict[str, Any]:
    """What went into a stage: the hash of each file, and the value of each param, by where they stand."""
    hashes = {part["path"]: part["md5"] for part in entry["deps"]}
    values = {f"{file}: {place}": value for file, given in entry.get("params", {}).items()
              for place, value in given.items()}  # fmt: skip
    return hashes | values


def _refuse_mixture(entries: dict[str, dict]) -> None:
    """Refuses methods that were trained on different data, by different code or with different common params."""
    parts = {method: _parts(entry) for method, entry in entries.items()}
    for one, other in combinations(parts, 2):
        for place in parts[one].keys() & parts[other].keys():
            if parts[one][place] != parts[other][place]:
                raise ValueError(
                    f"experiments/dvc.lock: {place} of {one} is not that of {other} ({parts[one][place]} and "
                    f"{parts[other][place]}), so they cannot stand in one table: run `dvc repro {STAGES}`"
                )


def _refuse_changed(methods: Iterable[str]) -> None:
    """Refuses results, code, params and data that are not those of the lock; data that are elsewhere are let be."""
    from dvc.repo import Repo  # seconds, which the report does not need

    with Repo(".") as repo:
        for stage in [one for method in methods for one in repo.stage.collect(f"{STAGES}@{method}")]:
            for part in [*stage.deps, *stage.outs]:
                if part.def_path.startswith(("data/", "checks/", "models/")) and not part.exists:
                    continue
                for place, state in part.status().items():
                    raise ValueError(
                        f"{stage.name}: {place} is not that of experiments/dvc.lock ({_said(state)}): run "
                        f"`dvc repro {STAGES}`, and commit experiments/dvc.lock"
                    )


def _said(state: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in state.items()) if isinstance(state, dict) else str(state)


def _digest(entry: dict) -> str:
    return hashlib.md5(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def collected(*, command: str, made_on: dict[str, str], highest: dict[str, float] | None = None) -> dict[str, Any]:
    """The results of the comparison of label rankers, and what made them; of those methods that were run.

    Args:
        command: what was run.
        made_on: see `machine`.
        highest: of figures whose highest is not 1, what a ranking without any mistake has on the test images.

    Raises:
        ValueError: results are missing, of other params, code, data or seeds than the lock or each other say, or their
            code or params are in no commit.
    """
    commit = _commit()
    params, experiments = (_read(Path(file)) for file in ("params.yaml", "experiments/params.yaml"))
    plan = experiments["comparisons"].get(COMPARISON)
    if plan is None:
        raise ValueError(f"experiments/params.yaml: no comparisons.{COMPARISON}, so there is nothing to keep")
    if plan["dataset"] != DATASET:
        raise ValueError(
            f"experiments/params.yaml: comparisons.{COMPARISON}.dataset is {plan['dataset']}, expected {DATASET}: the "
            "kept tables stand beside the paper's, which are of that"
        )
    if params["data"]["snapshot"] != 1:
        raise ValueError(
            f"params.yaml: data.snapshot is {params['data']['snapshot']}, expected 1: the kept tables stand beside the "
            "paper's, and images that came in later make other numbers of them"
        )
    lock = (_read(Path("experiments/dvc.lock")) or {}).get("stages") or {}
    entries, results = {}, {}
    for method in plan["methods"]:
        name, path = f"compare_{COMPARISON}@{method}", Path(f"results/comparisons/{COMPARISON}-{method}.json")
        if not path.is_file():  # not run at this scale
            continue
        if name not in lock:
            raise ValueError(f"experiments/dvc.lock: no {name}: run `dvc repro experiments/dvc.yaml:{name}`")
        entries[method], results[method] = lock[name], _read(path)
        seeds = [one["seed"] for one in results[method]["seeds"]]
        if seeds != list(range(1, plan["seeds"] + 1)):
            raise ValueError(
                f"{path}: has the seeds {seeds}, expected 1 to {plan['seeds']}: run `dvc repro "
                f"experiments/dvc.yaml:{name}`"
            )
    if not entries:
        raise FileNotFoundError(f"no results/comparisons/{COMPARISON}-*.json: run `dvc repro {STAGES}`")
    _refuse_mixture(entries)
    _refuse_changed(entries)
    return {
        "comparison": COMPARISON,
        "command": command,
        "commit": commit,
        "made_on": made_on,
        "params": {name: params[name] for name in ("compute", "ranked_mnist")} | {"comparison": plan},
        "highest": highest or {},
        "methods": {method: {"lock_entry": _digest(entries[method])} | found for method, found in results.items()},
    }


def keep(name: str, *, command: str, made_on: dict[str, str], highest: dict[str, float] | None = None) -> Path:
    """Writes what is `collected` to results/paper/<name>.json, whole or not at all, and returns where that is."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"{name!r} is no name for a file of results: expected small letters, digits, - and _")
    found = collected(command=command, made_on=made_on, highest=highest)
    path = FOLDER / f"{name}.json"
    with replaced_file(path) as partial:
        partial.write_text(json.dumps(found, indent=1) + "\n")
    return path


def _figures(kept: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Each method's test figures, a row a seed."""
    figure = kept["params"]["comparison"]["figure"]
    return {
        method: pd.DataFrame([{figure: one["test"]} | one.get("figures", {}) for one in found["seeds"]],
                             index=[one["seed"] for one in found["seeds"]])
        for method, found in kept["methods"].items()
    }  # fmt: skip


def table(kept: dict[str, Any]) -> pd.DataFrame:
    """One row a method: per cent as mean ± standard error over seeds, the paper's beside, the gain in exact match.

    The gain is that over the method's baseline; its p-value is that of Student's test of the seeds' differences.
    """
    plan, figures, rows = kept["params"]["comparison"], _figures(kept), []
    published = RANKED_MNIST.get(kept["params"]["ranked_mnist"]["rows"]["train"], {})
    places = [place for place in TITLES if any(place in rows for rows in figures.values())]
    places += sorted({place for rows in figures.values() for place in rows} - set(places))
    for method, found in figures.items():
        row, printed = {"method": method}, published.get(method, {})
        for place in places:
            title = TITLES.get(place, place)
            values = 100 * found[place] if place in found else pd.Series(dtype=float)
            row[title] = f"{values.mean():.1f} ± {values.sem():.2f}" if len(values) else ""
            row[f"paper's {title}"] = printed.get(place, "")
        row["seeds"] = len(found)
        baseline = plan["methods"][method].get("baseline")
        baseline = baseline if baseline in figures else plan["baseline"]
        row |= {"gain in 0-1": "", "p": "", "over": ""}
        if method != baseline and EXACT in found and EXACT in figures.get(baseline, ()):
            gain = (found[EXACT] - figures[baseline][EXACT]).to_numpy()
            row |= {"gain in 0-1": f"{100 * gain.mean():+.1f}", "p": _p_value(gain), "over": baseline}
        row["scorer trained by"] = _recipe(plan["training"]["scorer"], kept["methods"][method]["chosen"])
        row["lock entry"] = kept["methods"][method]["lock_entry"][:8]
        rows.append(row)
    result = pd.DataFrame(rows)
    return result.loc[:, (result != "").any()]


def _recipe(planned: dict[str, Any], chosen: dict[str, Any]) -> str:
    """How a method's scorer was trained, in a few words: what was planned for all, with what was chosen of the grid."""
    scorer = deepcopy(planned)
    for place, value in chosen.items():
        if place.startswith("training.scorer."):
            *within, last = place.removeprefix("training.scorer.").split(".")
            block = scorer
            for key in within:
                block = block[key]
            block[last] = value
    steps, shift, zoom, rotation = scorer["optimizer"], scorer.get("shift"), scorer.get("zoom"), scorer.get("rotation")
    views = chosen.get("training.views")
    model = {place: value for place, value in chosen.items() if place.partition(".")[0] == "model"}
    words = [
        f"{steps['name']} at {steps['args']['lr']:g}" if "lr" in steps["args"] else steps["name"],
        f"up to {scorer['epochs']} epochs",
        scorer["schedule"]["name"],
        f"moved by up to {shift} px" if shift else "",
        f"zoomed by up to {zoom:g}" if zoom and zoom > 1 else "",
        f"turned by up to {rotation:g}°" if rotation else "",
        *(f"{place} {_said_of(value)}" for place, value in model.items()),
        f"averaged weights ({scorer['average']:g} a step)" if scorer.get("average") else "",
        f"epoch chosen by {scorer['judged_by']}" if scorer.get("judged_by") else "",
        f"scores are means over {views['count']} views" if views else "",
    ]
    return ", ".join(filter(None, words))


def _said_of(value: Any) -> str:
    if isinstance(value, dict) and "name" in value:
        return " ".join([value["name"], *(f"{option} {_said_of(one)}" for option, one in value["args"].items())])
    return "-".join(map(str, value)) if isinstance(value, list) else str(value)


def _p_value(differences: np.ndarray) -> str:
    if not differences.any():
        return "1"
    p = stats.ttest_rel(differences, np.zeros_like(differences)).pvalue
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def sections(folder: Path = FOLDER) -> dict[str, Section]:
    """A title, text and `table` for each kept file.

    Raises:
        ValueError: a file is not what `keep` writes.
    """
    result = {}
    for path in sorted(folder.glob("*.json")):
        try:
            kept = json.loads(path.read_text())
            data, made_on = kept["params"]["ranked_mnist"], kept["made_on"]
            rows, published = table(kept), RANKED_MNIST.get(data["rows"]["train"], {})
            paired = "; gains are paired by seed" if "gain in 0-1" in rows else ""
            text = (
                f"{data['rows']['train']:,} training images of {data['canvas']} px, {data['rows']['test']:,} test "
                f"images, {kept['params']['comparison']['model']['name']} unless another model is named; per cent, "
                f"mean ± standard error over seeds{paired}. Kept, not rebuilt here: "
                f"made by `{kept['command']}` at commit {kept['commit'][:10]} on {made_on['hardware']}; Python "
                f"{made_on['python']}, PyTorch {made_on['torch']}. {RECIPE}"
            )
            if data["rows"]["train"] == SUBSET:
                text += OF_SUBSET
            elif published and not published.keys() & kept["methods"].keys():
                shown = (EXACT, MEAN_AVERAGE_PRECISION, "ranked.accuracy", "unranked.exact_match")
                told = ", ".join(f"{TITLES[place]} {published['rlsep'][place]}" for place in shown)
                text += f" RLSEP has there, of as many training images: {told}."
            for place, most in dict(kept.get("highest", {})).items():
                text += f" A ranking without any mistake has a {TITLES.get(place, place)} of {100 * most:.2f} there."
            if left := [method for method in kept["params"]["comparison"]["methods"] if method not in kept["methods"]]:
                text += f" Not run: {', '.join(left)}."
            result[f"Kept results: {path.stem}"] = Section(text, rows)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: not what `rankops keep` writes ({type(error).__name__}: {error}): `git checkout {path}`"
            ) from error
    return result


if __name__ == "__main__":
    json.dump(machine(), sys.stdout, indent=1)
