"""`rankgrad doctor`: check the environment; prints one line per check, and exits with 1 if a check fails."""

import os
import shutil
import tomllib
from pathlib import Path

import typer

from pipelines.cli.params import PARAMS, examined
from pipelines.ops.messages import first_line, without_credentials

__all__ = ["doctor"]

PREFECT = "http://127.0.0.1:4200/api"  # of `make up`


def doctor() -> None:
    """Check packages, GPU, disk, git, DVC, params, MLflow, and Prefect.

    Exit code: 1 if something is broken.
    """
    broken = False
    for name, look in LOOKS.items():
        try:
            state, line = "ok", look()
        except Exception as error:  # libraries may raise any error
            state, line, broken = "broken", without_credentials(str(error)) or type(error).__name__, True
        typer.secho(f"{state:7}", fg="green" if state == "ok" else "red", nl=False)
        typer.echo(f"{name:9}{line}".replace("\n", f"\n{'':16}"))
    if broken:
        raise typer.Exit(1)


def _packages() -> str:
    from importlib.metadata import version

    from packaging.requirements import Requirement

    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    wrong = []
    for requirement in map(Requirement, (*extras["tasks"], *extras["pipeline"])):
        installed = "" if requirement.name == "rankgrad" else version(requirement.name)
        if installed and not requirement.specifier.contains(installed, prereleases=True):
            wrong.append(f"{requirement} is required, but {installed} is installed")
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}: run `make setup`")
    return ", ".join(f"{name} {version(name)}" for name in ("dvc", "mlflow", "prefect"))


def _gpu() -> str:
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(names) or "PyTorch can use none: training runs on the CPU"


def _disk() -> str:
    free = shutil.disk_usage(".").free / 1e9
    if free < 1:
        raise OSError(f"{free:.1f} GB free: `dvc gc --all-branches --projects studies` removes old data and models")
    return f"{free:.0f} GB free"


def _git() -> str:
    from pipelines.ops.git import git

    changed = git(".", "diff", "HEAD", "--name-only").splitlines()
    branch = f"{git('.', 'rev-parse', '--abbrev-ref', 'HEAD')} at {git('.', 'rev-parse', '--short', 'HEAD')}"
    return f"{branch}; uncommitted changes, which retraining ignores: {', '.join(changed) or 'none'}"


def _dvc() -> str:
    from dvc.repo import Repo

    from pipelines.ops.dvc_lock import stages

    with Repo(".") as repo:
        remote = repo.config["core"].get("remote")
    return f"{len(stages())} stages in dvc.lock; remote: {remote or 'none'}"


def _params() -> str:
    if wrong := examined(PARAMS)[1]:
        raise ValueError("\n".join(wrong))
    return "valid"


def _mlflow() -> str:
    if not os.environ.get("MLFLOW_TRACKING_URI") and not Path("mlflow.db").exists():  # MLflow takes seconds to import
        return "no mlflow.db yet: `make repro` publishes to it"
    from pipelines.tracking import registry
    from pipelines.tracking.store import address_of_store, connect

    models = connect().search_registered_models()
    champions = {model.name: registry.holder(model) for model in models}
    lost = [name for name, number in champions.items() if number and not registry.has_files(f"models:/{name}/{number}")]
    if lost:
        raise ValueError(f"the champion of {', '.join(lost)} has lost its files: `make repro` uploads them again")
    return f"{without_credentials(address_of_store())}: {len(models)} registered models"


def _prefect() -> str:
    """Return the work pools of our deployments; raise if no worker polls one of them."""
    import httpx

    address = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    name, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    server_name = without_credentials(address or PREFECT)
    tagged = {"deployments": {"tags": {"all_": ["rankgrad"]}}}
    try:
        with httpx.Client(base_url=address or PREFECT, auth=(name, password) if name else None, timeout=5) as server:
            deployments = server.post("/deployments/filter", json=tagged).raise_for_status().json()
            pools = sorted({deployment["work_pool_name"] for deployment in deployments if deployment["work_pool_name"]})
            states = {pool: server.get(f"/work_pools/{pool}").raise_for_status().json()["status"] for pool in pools}
    except httpx.InvalidURL as error:  # its message may contain part of the password
        raise ValueError(f"PREFECT_API_URL is {server_name}, expected an address such as {PREFECT}") from error
    except (httpx.HTTPError, ValueError) as error:
        if not address:
            return f"no server at {server_name}; schedules need one: `make up` starts it"
        raise ConnectionError(
            f"{server_name} does not answer: {first_line(error)}; start it or correct PREFECT_API_URL"
        ) from error
    if idle := [f"{pool} is {state}" for pool, state in states.items() if state != "READY"]:
        raise ValueError(
            f"{server_name}: runs cannot start, because the work pool {', '.join(idle)}: `make up PARTS=worker "
            "POOL=...`"
        )
    return f"{server_name}: {'work pools ' + ', '.join(pools) if pools else 'no deployments: run `make deploy`'}"


LOOKS = {
    "packages": _packages,
    "GPU": _gpu,
    "disk": _disk,
    "git": _git,
    "DVC": _dvc,
    "params": _params,
    "MLflow": _mlflow,
    "Prefect": _prefect,
}
