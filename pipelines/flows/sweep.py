"""The flow that compares seeds, losses and params: each combination a DVC experiment, all of them one run in MLflow."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.futures import as_completed
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from pipelines.config.schema import Settings, load
from pipelines.flows.points import Checkout, Point, Result, at_death, points, run_point, snapshot
from pipelines.flows.processes import Commands
from pipelines.ops import dvc_lock
from pipelines.ops.messages import in_a_line
from pipelines.reporting.html import Section, markdown
from pipelines.reporting.plots import curves, learning_curves
from pipelines.reporting.results import flat
from pipelines.stages.report import SHOWN, TITLES
from pipelines.tracking.publish import Finished, key_of, publish_sweep, store
from rankops import lookup

__all__ = ["SweepIncomplete", "sweep", "tables"]

EXPERIMENT = "sweeps"  # in MLflow
# Of each flow run that has points in this process: a flow's own, or a Dask worker.
_commands: dict[str, Commands] = {}
_guards: list[subprocess.Popen] = []


class SweepIncomplete(ValueError):
    """Some points of a sweep failed.

    Attributes:
        results: of the others.
    """

    def __init__(self, message: str, results: list[Result]):
        super().__init__(message)
        self.results = results


@task(name="point", task_run_name="{point.name}", cache_policy=NO_CACHE)
def _run(point: Point, checkout: Checkout, within: str) -> Result:
    return run_point(point, checkout, _commands.setdefault(within, Commands()))


def _stop(within: str) -> None:
    """Ends what a flow run has started in this process; nothing is started any more."""
    _commands.setdefault(within, Commands()).stop()


@contextmanager
def _runner(workers: int, dask: str | None, within: str) -> Iterator[TaskRunner]:
    """Runs points in threads or on a Dask cluster; whatever goes wrong in the flow ends all of them."""
    if dask is None:
        with ThreadPoolTaskRunner(max_workers=workers) as runner:
            try:
                yield runner
            except BaseException:
                _stop(within)  # before the threads are waited for
                raise
            finally:
                _commands.pop(within, None)
        return
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError as error:
        raise ValueError("dask: prefect-dask is not installed here: uv pip install '.[fleet]'") from error
    if dask == "local":
        # What a point needs of memory its own processes have, which Dask does not see.
        cluster = {"n_workers": workers, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None,
                   "memory_limit": 0}  # fmt: skip
        made = DaskTaskRunner(cluster_kwargs=cluster)
    else:
        made = DaskTaskRunner(address=dask)
    # Else each worker would start a Prefect server of its own.
    with made as runner, temporary_settings({PREFECT_API_URL: str(FlowRunContext.get().client.api_url)}):
        try:
            runner.client  # noqa: B018 (connects)
        except (OSError, ValueError) as error:
            raise ValueError(f"dask: no scheduler answers at {dask}: {error}") from error
        try:
            yield runner
        except BaseException:
            runner.client.run(_stop, within)
            raise


def _let_no_server_outlive_us() -> None:
    """The server that Prefect starts where none is named would stay when this process is killed."""
    module = sys.modules.get("prefect.server.api.server")
    server = module.SubprocessASGIServer().server_process if module else None
    if server is not None and not _guards:
        _guards.append(at_death('kill "$1" 2>/dev/null', str(server.pid)))


def tables(results: list[Result]) -> dict[str, pd.DataFrame]:
    """By task, a row a point with its main figures on the test set; below several seeds, their mean and deviation."""
    found: dict[str, list[dict[str, str]]] = {}
    by_setting: dict[str, list[Result]] = {}
    for result in results:
        by_setting.setdefault(json.dumps([result.point.run, result.point.changes]), []).append(result)
    for several in by_setting.values():
        point = several[0].point
        rows = found.setdefault(point.task, [])
        setting = {"run": point.run} | {key: json.dumps(value) for key, value in point.changes.items()}
        numbers = pd.DataFrame([result.figures for result in several])[list(SHOWN[point.task])]
        for result, (_, row) in zip(several, numbers.iterrows(), strict=True):
            shown = {title: f"{row[place]:.4f}" for place, title in SHOWN[point.task].items()}
            rows.append(setting | {"seed": str(result.point.seed)} | shown)
        if len(several) > 1:
            mean, deviation = numbers.mean(), numbers.std()
            shown = {title: f"{mean[place]:.4f} ± {deviation[place]:.4f}" for place, title in SHOWN[point.task].items()}
            rows.append(setting | {"seed": f"mean of {len(several)}"} | shown)
    return {one: pd.DataFrame(rows).fillna("") for one, rows in found.items()}


def _finished(result: Result, sweep_key: str, folder: Path, settings: Settings) -> Finished:
    """A point for MLflow, with its plot in a folder."""
    point = result.point
    plot, metrics = folder / "learning_curves.png", folder / f"{point.run}.json"
    folder.mkdir()
    learning_curves(plot, result.history, title=point.name)
    metrics.write_text(result.metrics)
    result.history.to_csv(folder / "history.csv", index=False)
    params = {}
    for entry in result.entries:
        for key, value in entry["params"]["params.yaml"].items():  # runs.<run>, training.<task>, compute, ...
            block, _, named = key.partition(".")
            params |= value if named == point.run else {block: value}
    return Finished(
        name=point.name,
        experiment=EXPERIMENT,
        key=key_of(sweep_key, point.name, dvc_lock.made_by(result.entries)),
        params=flat(params) | {key: json.dumps(value) for key, value in point.changes.items()},
        metrics=result.figures,
        tags={"run": point.run, "task": point.task, "seed": str(point.seed), "dvc_experiment": point.name,
              "loss": settings.all_runs[point.run].loss.name}
        | {f"point.{key}": json.dumps(value) for key, value in point.changes.items()}
        | dvc_lock.inputs(result.entries),
        history=result.history,
        files={"plots": [plot], "figures": [metrics, folder / "history.csv"]},
        version=None,
    )  # fmt: skip


def _compared(results: list[Result], name: str, key: str, folder: Path, params: dict[str, Any]) -> Finished:
    """The sweep itself for MLflow: its table, and the validation of all points over epochs."""
    panels: dict[str, dict[str, Any]] = {}
    for result in results:
        point = result.point
        judged = lookup.module("tasks", point.task).JUDGED_BY
        changed = (f"{key.split('.')[-1]} {value}" for key, value in point.changes.items())
        label = ", ".join([f"seed {point.seed}", *changed])
        lines = panels.setdefault(f"{point.run}: {judged}", {})
        lines[label] = result.history["epoch"], result.history[judged]
    plot, table = folder / "points.png", folder / "results.md"
    curves(plot, panels, x="epoch", y="on the validation split", title=name)
    table.write_text(_page(results))
    return Finished(
        name=name, experiment=EXPERIMENT, key=key, params=params, metrics={}, tags={"sweep": name},
        history=pd.DataFrame({"epoch": []}), files={"plots": [plot], "figures": [table]}, version=None,
    )  # fmt: skip


def _page(results: list[Result]) -> str:
    return markdown({TITLES[one]: Section("On the test split.", table) for one, table in tables(results).items()})


@flow(name="sweep")
def sweep(
    runs: list[str],
    changes: dict[str, list[Any]] | None = None,
    seeds: list[int] | None = None,
    workers: int = 1,
    dask: str | None = None,
    name: str | None = None,
) -> list[Result]:
    """Trains and evaluates every combination of runs, values and seeds: each a DVC experiment, all in MLflow.

    A sweep that was killed or failed is run again and goes on; the same one again finds all in DVC's cache, and sends
    nothing. Results are the same bits whatever runs them, as `compute.threads` stands in params.yaml.

    Args:
        runs, changes, seeds: see `pipelines.flows.points.points`.
        workers: points that run at once.
        dask: None for threads of this process; `local` for a Dask cluster of that many workers on this machine; or the
            address of a scheduler whose workers have this folder.
        name: of the sweep in MLflow.

    Returns:
        What each point gave.

    Raises:
        ParamsError: a run, a key or a combination is impossible; nothing was run.
        ValueError: the number of workers or the address is.
        SweepIncomplete: some points failed, the others are sent.
        ServerUnreachable: MLflow's store does not answer; the results are in DVC's cache.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: expected at least 1")
    wanted = points(runs, changes or {}, seeds)
    settings, checkout, within = load(), snapshot(Path.cwd()), str(flow_run.id)
    _let_no_server_outlive_us()
    key = key_of(checkout.code, [point.name for point in wanted])
    name = name or f"sweep-{key[:8]}"
    log = get_run_logger()
    log.info("%s: %d points, %d at once", name, len(wanted), workers)
    params = {"runs": ", ".join(runs), "seeds": ", ".join(map(str, seeds)) if seeds else "as in params.yaml"}
    params |= {one: json.dumps(values) for one, values in (changes or {}).items()}
    results: dict[str, Result] = {}

    def send(new: list[Result]) -> None:
        there = [results[point.name] for point in wanted if point.name in results]
        with tempfile.TemporaryDirectory() as scratch, store() as client:
            finished = [_finished(result, key, Path(scratch) / result.point.name, settings) for result in new]
            parent = _compared(there, name, key, Path(scratch), params)
            publish_sweep(client, parent, finished, of=len(wanted))

    failed: dict[str, str] = {}
    with _runner(workers, dask, within) as runner:
        submitted = {
            runner.submit(_run, {"point": point, "checkout": checkout, "within": within}): point for point in wanted
        }
        for future in as_completed(list(submitted)):
            point = submitted[future]
            try:
                results[point.name] = future.result()
            except Exception as error:  # of one point; the others go on
                failed[point.name] = in_a_line(error)
                log.error("%s failed: %s", point.name, failed[point.name])
                continue
            log.info("%s: done, %d of %d", point.name, len(results), len(wanted))
            try:
                send([results[point.name]])
            except Exception as error:  # no reason to lose trainings; in the end all are sent again, and that may fail
                log.warning("%s is not in MLflow yet: %s", point.name, error)
    done = [results[point.name] for point in wanted if point.name in results]
    if done:
        create_markdown_artifact(key="sweep", markdown=_page(done), description=name)
        send(done)
    if failed:
        raise SweepIncomplete(
            f"{len(failed)} of {len(wanted)} points failed; the same sweep again goes on with them:\n"
            + "\n".join(f"{point}: {why}" for point, why in failed.items()),
            done,
        )
    return done
