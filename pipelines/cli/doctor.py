"""`rankgrad doctor`: looks at what a run needs, and says what to do about what is missing."""

import os
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from pipelines.cli.data import MNIST, SUBSET
from pipelines.cli.params import EXPERIMENTS, PARAMS, problems
from pipelines.cli.shared import AsJson, print_json
from pipelines.ops.messages import first_line, without_credentials

__all__ = ["Finding", "doctor", "findings"]

SHOWN = ("torch", "dvc", "prefect", "mlflow", "great-expectations")
COLORS = {"ok": "green", "note": "yellow", "broken": "red"}
PREFECT = "http://127.0.0.1:4200/api"  # of `make up`
HOW_TO_GET = {"subset": f"git checkout {SUBSET}", "mnist": "rankgrad fetch mnist"}
FREE = 5.0  # GB: data, models and caches of the laptop scale, with room for a second version of them


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: such as "git".
        found: what there is.
        state: `broken` keeps the pipeline from running, `note` does not.
        advice: what to do; empty if nothing.
    """

    name: str
    found: str
    state: Literal["ok", "note", "broken"] = "ok"
    advice: str = ""


def doctor(as_json: AsJson = False) -> None:
    """Look at packages, GPU, disk, git, DVC, digits, raw data, params, MLflow and Prefect; 1 if something is broken."""
    found = list(findings())
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        for one in found:
            typer.secho(f"{one.state:7}", fg=COLORS[one.state], nl=False)
            typer.echo(f"{one.name:12} {one.found}".replace("\n", f"\n{'':20}"))
            if one.advice:
                typer.echo(f"{'':20}-> {one.advice}")
    if any(one.state == "broken" for one in found):
        raise typer.Exit(1)


def findings() -> Iterator[Finding]:
    """Yield what was found; something that cannot be looked at is broken too."""
    for name, look in LOOKS.items():
        try:
            yield from look()
        except Exception as error:  # a doctor who faints helps nobody
            yield Finding(name, f"{type(error).__name__}: {without_credentials(str(error))}", "broken")


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement

    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [Requirement(line) for line in (*project["dependencies"], *extras["tasks"], *extras["pipeline"])]
    shown, wrong = [], []
    for one in required:
        if one.name == project["name"]:
            continue
        try:
            installed = version(one.name)
        except PackageNotFoundError:
            wrong.append(f"{one.name} is missing")
            continue
        if one.name in SHOWN:
            shown.append(f"{one.name} {installed}")
        if not one.specifier.contains(installed, prereleases=True):
            wrong.append(f"{one.name} is {installed}, expected {one.specifier}")
    yield Finding("Python", f"{sys.version.split()[0]}, {sys.prefix}")
    if wrong:
        yield Finding("packages", "; ".join(wrong), "broken", "make setup")
    else:
        yield Finding("packages", ", ".join(shown))


def _gpu() -> Iterator[Finding]:
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if torch.cuda.is_available():
        yield Finding("GPU", ", ".join(names))
    else:
        yield Finding("GPU", "none that PyTorch can use: trainings run on the CPU")


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(".").free / 1e9
    if free >= FREE:
        yield Finding("disk", f"{free:.0f} GB free")
    else:
        state = "note" if free > 1 else "broken"
        advice = "free space, or `dvc gc --all-branches --projects studies`"
        yield Finding("disk", f"{free:.1f} GB free, expected {FREE:.0f}", state, advice)


def _git() -> Iterator[Finding]:
    from pipelines.ops.git import git

    try:
        branch, commit = git(".", "rev-parse", "--abbrev-ref", "HEAD"), git(".", "rev-parse", "--short", "HEAD")
        changed = len(git(".", "diff", "HEAD", "--name-only").splitlines())
    except (ValueError, OSError) as error:
        advice = "run in a git clone with at least one commit; results name the commit that made them"
        yield Finding("git", str(error), "broken", advice)
        return
    state = ("note", "commit: a retraining takes what is committed alone") if changed else ("ok", "")
    yield Finding("git", f"{branch} at {commit}, {changed} files changed", *state)


def _dvc() -> Iterator[Finding]:
    from dvc.repo import Repo

    from pipelines.ops.dvc_lock import stages
    from pipelines.ops.dvc_repair import unmerged

    if found := unmerged():
        yield from (Finding(str(path), wrong, "broken", advice) for path, wrong, advice in found)
        return
    with Repo(".") as repo:
        cache, remote = Path(repo.cache.local.path), repo.config["core"].get("remote")
    try:
        count = len(stages())
    except ValueError as error:
        yield Finding("dvc.lock", str(error), "broken", "rankgrad repair")
    else:
        state = ("ok", "") if count else ("note", "make repro")
        yield Finding("dvc.lock", f"{count} stages have been run", *state)
    parent = next(place for place in (cache, *cache.parents) if place.exists())
    if not os.access(parent, os.W_OK):
        yield Finding("DVC cache", f"{cache}: not writable", "broken", "own the folder, or `dvc cache dir`")
    else:
        yield Finding("DVC cache", f"{cache}{'' if cache.exists() else ' (empty)'}; remote: {remote or 'none'}")


def _data() -> Iterator[Finding]:
    """Look for digits and raw data on disk; `rankgrad check` and the stages look into them."""
    from pipelines.config import load

    try:
        settings = load(PARAMS)
    except ValueError:
        return  # "params" says what is wrong with them
    if any(dataset.is_drawn for dataset in settings.datasets.values()):
        yield _digits(settings.digits.source)
    else:
        yield Finding("digits", "no dataset is drawn from them")
    for key, block in settings.datasets.items():
        if block.is_drawn:
            continue
        if Path(block.raw).exists():
            yield Finding("raw data", f"{block.raw} is there, for {key}")
        else:
            advice = "put it there, or correct its `raw`"
            yield Finding("raw data", f"{block.raw}: no such folder, for {key}", "broken", advice)


def _digits(source: str) -> Finding:
    from rankgrad.datasets.scenes import digits, mnist

    try:
        if source == "mnist":
            mnist.check(MNIST)
        else:
            digits.splits(source, SUBSET)
    except (FileNotFoundError, ValueError) as error:
        return Finding("digits", str(error), "broken", HOW_TO_GET[source])
    return Finding("digits", f"{source}: complete, in data/raw/{source}")


def _params() -> Iterator[Finding]:
    for file in (PARAMS, *([EXPERIMENTS] if EXPERIMENTS.is_file() else [])):
        if wrong := problems(file):
            shown = [*wrong[:3], f"and {len(wrong) - 3} more"] if len(wrong) > 4 else wrong
            state = "broken" if file == PARAMS else "note"  # `make repro` does without the experiments
            yield Finding(str(file), "\n".join(shown), state, f"edit the file; `rankgrad check {file}` checks it again")
        else:
            yield Finding(str(file), "valid")


def _mlflow() -> Iterator[Finding]:
    if not os.environ.get("MLFLOW_TRACKING_URI") and not Path("mlflow.db").exists():  # MLflow takes seconds to import
        yield Finding("MLflow", "no mlflow.db yet", "note", "make repro publishes to it")
        return
    from pipelines.tracking import registry
    from pipelines.tracking.store import address_of_store, connect

    try:
        client = connect()
        models = client.search_registered_models()
        champions = {model.name: registry.holder(model) for model in models}
        lost = [name for name, one in champions.items() if one and not registry.has_files(f"models:/{name}/{one}")]
    except (FileNotFoundError, ValueError) as error:
        server = os.environ.get("MLFLOW_TRACKING_URI", "").startswith("http")
        advice = "start the server (make up), or correct MLFLOW_TRACKING_URI" if server else "do what this line says"
        yield Finding("MLflow", str(error), "broken", advice)
    else:
        shown = without_credentials(address_of_store())
        yield Finding("MLflow", f"{shown} answers; {len(models)} registered models")
        if lost:
            told = f"the champion of {', '.join(lost)} has lost its files"
            yield Finding("MLflow", told, "broken", "make repro restores those of params.yaml")


def _prefect() -> Iterator[Finding]:
    """Whether a server is there, and a worker for each work pool of our deployments."""
    import httpx

    address = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    name, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    shown = without_credentials(address or PREFECT)
    try:
        httpx.URL(address)
    except httpx.InvalidURL:  # whose message may have a part of the password
        yield Finding("Prefect", f"PREFECT_API_URL: {shown}: no address", "broken", f"set it to such as {PREFECT}")
        return
    with httpx.Client(base_url=address or PREFECT, auth=(name, password) if name else None, timeout=5) as server:
        try:
            ours = {"deployments": {"tags": {"all_": ["rankgrad"]}}}
            found = server.post("/deployments/filter", json=ours).raise_for_status().json()
            pools = {one["work_pool_name"] for one in found if one["work_pool_name"]}
            states = {pool: server.get(f"/work_pools/{pool}").raise_for_status().json()["status"] for pool in pools}
        except (httpx.HTTPError, ValueError) as error:
            if address:
                advice = "start the server (make up), or correct PREFECT_API_URL and PREFECT_API_AUTH_STRING"
                yield Finding("Prefect", f"{shown} does not answer: {first_line(error)}", "broken", advice)
            else:
                yield Finding("Prefect", f"no server at {shown}", "note", "make up starts one; schedules need it")
            return
    if not pools:
        yield Finding("Prefect", f"{shown} answers, and has no flows of ours", "note", "make deploy")
    for pool, state in sorted(states.items()):
        if state == "READY":
            yield Finding("Prefect", f"{shown} answers; a worker polls the work pool {pool}")
        else:
            advice = "prefect work-pool resume " if state == "PAUSED" else "make up PARTS=worker POOL="
            yield Finding("Prefect", f"{shown}: runs wait, the work pool {pool} is {state}", "note", f"{advice}{pool}")


LOOKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "packages": _packages,
    "GPU": _gpu,
    "disk": _disk,
    "git": _git,
    "DVC": _dvc,
    "data": _data,
    "params": _params,
    "MLflow": _mlflow,
    "Prefect": _prefect,
}
