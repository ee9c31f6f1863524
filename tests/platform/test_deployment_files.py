"""The files of a team's setup held against their schemas: Compose, Kubernetes, Prefect's work pools."""

import asyncio
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import kubernetes_validate
import pytest
from docker.utils.build import exclude_paths
from prefect.client.schemas.objects import FlowRun
from prefect.server.events.jinja_filters import all_filters
from prefect.server.events.schemas.automations import EventTrigger
from prefect.server.events.schemas.events import ReceivedEvent
from prefect.server.utilities.user_templates import (
    matching_types_in_templates,
    register_user_template_filters,
    render_user_template_sync,
)
from prefect.states import Failed
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration
from ruamel.yaml import YAML

from pipelines.flows.monitor import DRIFTED
from pipelines.flows.promote import NOT_JUDGED, PROMOTED

from conftest import ROOT, done, listening  # isort: skip

COMPOSE = ("compose.yaml", "compose.gpu.yaml")
KUBERNETES = sorted(path for path in (ROOT / "deploy/kubernetes").glob("*.yaml") if path.stem != "kustomization")
KUBERNETES_VERSION = "1.31"
SECRET = re.compile(r"PASSWORD|SECRET|_KEY(?!_0)|AUTH|TOKEN")


def read(path: str | Path) -> list[dict]:
    return list(YAML(typ="safe").load_all(ROOT / path))


def services() -> dict[str, dict]:
    return read("compose.yaml")[0]["services"]


def test_every_secret_of_compose_must_be_set_and_is_in_the_example():
    text = "".join((ROOT / name).read_text() for name in COMPOSE)
    used = [(name, default) for name, default in re.findall(r"\$\{(\w+)([^}]*)\}", text) if SECRET.search(name)]
    lines = [line for line in (ROOT / ".env.example").read_text().splitlines() if line and not line.startswith("#")]
    assert {*lines} == {f"{name}=" for name, _ in used}, "a value in .env.example would be a default password"
    for name, default in used:
        assert default.startswith(":?"), f"{name}: compose must refuse to start without it"
    for service in services().values():
        for name, value in service.get("environment", {}).items():
            if SECRET.search(name) and name != "MLFLOW_AUTH_CONFIG_PATH":
                assert "${" in value, f"{name} is written into compose.yaml"


def test_compose_is_of_its_schema_pins_images_drops_rights_listens_here_alone_and_mounts_what_is_there():
    done(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *COMPOSE)
    for name, service in services().items():
        assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", service["image"]), f"{name}: {service['image']} is no pinned tag"
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert (service.get("cap_drop") == ["ALL"]) == (name != "s3"), name
        assert {"pids_limit", "mem_limit"} <= {*service}, name
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), port
        for volume in service.get("volumes", []):
            file = volume.split(":")[0]
            assert not file.startswith(".") or (ROOT / file).is_file(), file


SECRET_FILES = (
    ".env", ".env.local", ".envrc", ".env~", "ENV.ENV", "rankgrad.env", "rankgrad.env.bak",
    "deploy/kubernetes/rankgrad.env", "src/rankgrad/.env.production",
)  # fmt: skip


def test_no_secret_and_nothing_of_this_machine_goes_into_the_image(tmp_path):
    assert re.search(r"^USER 1000$", (ROOT / "Dockerfile").read_text(), re.M)
    kept = {
        ".dvc/config", ".env.example", ".git/HEAD", ".git/objects/1f/5a", ".git/refs/heads/main",
        "data/raw/README.md", "data/raw/mnist.dvc",
        "data/raw/subset/README.md", "data/raw/subset/train.parquet", "deploy/prefect.sh", "dvc.yaml",
        "models/runs/none/.gitkeep", "models/sorters/none/.gitkeep", "src/rankgrad/models/network.py",
    }  # fmt: skip
    left_out = {
        ".dvc/cache/files", ".dvc/config.local", ".dvc/tmp/rwlock", *SECRET_FILES,
        ".git/config", ".git/logs/HEAD", ".git/logs/refs/heads/main", ".git/FETCH_HEAD", ".git/modules/one/config",
        "data/raw/lamem/images/a.jpg", "data/raw/mnist/train-images-idx3-ubyte.gz",
        "data/raw/movielens_100k.zip", ".retrain/checkout/.dvc/config.local", ".retrain/checkout/dvc.yaml",
        ".servers/prefect/prefect.db", ".venv/bin/python", "data/clips/train.parquet", "elsewhere/.dvc/config.local",
        "studies/data/clips/train.parquet", "studies/models/runs/one/run.json", "mlflow.db",
        "mlruns/1/weights", "models/runs/one/run.json", "params.yaml.partial-7", "src/rankgrad/__pycache__/ranks.pyc",
    }  # fmt: skip
    for path in kept | left_out:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert {path for path in exclude_paths(str(tmp_path), rules) if (tmp_path / path).is_file()} == kept


def test_the_lock_without_cuda_lacks_pytorch_and_its_libraries_alone():
    lock = (ROOT / "requirements.lock").read_text()
    left = subprocess.run(["sh", ROOT / "deploy/without_cuda.sh"], input=lock, capture_output=True, text=True).stdout
    before, after = (set(re.findall(r"^([\w.-]+)==", text, re.M)) for text in (lock, left))
    gone = before - after
    assert {"torch", "torchvision", "triton"} < gone
    assert not [name for name in gone if not re.match("torch|torchvision|triton|cuda-|nvidia-", name)]


def test_git_ignores_every_file_of_secrets_and_keeps_the_example():
    ignored = done("git", "check-ignore", "--no-index", *SECRET_FILES, ".env.example")
    assert ignored.split() == list(SECRET_FILES)


def test_kubernetes_manifests_are_of_the_schema_and_the_worker_is_not_root_and_reads_no_secret_but_its_own():
    assert KUBERNETES
    for manifest in [manifest for path in KUBERNETES for manifest in read(path)]:
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
        assert manifest["kind"] != "Secret", "secrets are made by hand, and are in no file"
        if manifest["kind"] == "Deployment":
            assert_restricted(manifest)
            assert manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    role = next(document for document in read("deploy/kubernetes/access.yaml") if document["kind"] == "Role")
    assert not any({"secrets", "*"} & {*rule["resources"], *rule["verbs"]} for rule in role["rules"])


def assert_restricted(manifest: dict) -> None:
    """As the namespace's pod security level asks for."""
    pod = manifest["spec"]["template"]["spec"]
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert (
        pod["securityContext"].items() >= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}.items()
    )
    assert all(container["securityContext"].items() >= rights.items() for container in pod["containers"])


@pytest.fixture
def template() -> dict:
    return json.loads((ROOT / "deploy/kubernetes/job-template.json").read_text())


def test_prefect_makes_a_valid_kubernetes_job_of_the_template(template):
    values = {"gpus": 4, "env": {"RANKGRAD_SCALE": "paper"}}
    # No server is asked, as the template names no blocks.
    made = KubernetesWorkerJobConfiguration.from_template_and_values(template, values, client=SimpleNamespace())
    configuration = asyncio.run(made)
    configuration.prepare_for_flow_run(FlowRun(flow_id=uuid4(), name="tidy-otter"))
    job = configuration.job_manifest
    pod = job["spec"]["template"]["spec"]
    # Prefect insists on these two, in a place where Kubernetes knows none and ignores them.
    assert (pod.pop("parallelism"), pod.pop("completions")) == (1, 1)
    kubernetes_validate.validate(job, KUBERNETES_VERSION, strict=True)
    assert_restricted(job)
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    limits = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "64Gi", "nvidia.com/gpu": 4}
    assert container["resources"]["limits"] == limits
    assert {"name": "RANKGRAD_SCALE", "value": "paper"} in container["env"]
    assert {"secretRef": {"name": "rankgrad"}} in container["envFrom"]
    assert not [variable for variable in container["env"] if variable.get("value") and SECRET.search(variable["name"])]


@pytest.mark.parametrize(("file", "began"), [("starts", "Pending"), ("heartbeats", "heartbeat")])
def test_only_runs_of_our_deployments_are_marked_crashed_if_they_do_not_start_or_miss_heartbeats(file, began, template):
    trigger = EventTrigger.model_validate(read(f"deploy/{file}.yaml")[0]["trigger"])  # as the server reads it
    for tag in ("rankgrad", "team"):
        related = {"prefect.resource.id": f"prefect.tag.{tag}", "prefect.resource.role": "tag"}
        event = ReceivedEvent(
            occurred="2026-11-23T03:00:00Z", event=f"prefect.flow-run.{began}", id=uuid4(),
            resource={"prefect.resource.id": f"prefect.flow-run.{uuid4()}"}, related=[related],
        )  # fmt: skip
        assert trigger.starts_after(event.event)
        assert trigger.covers(event) == (tag == "rankgrad")
    ended = {"heartbeat", "Completed", "Failed", "Cancelled", "Crashed", NOT_JUDGED, PROMOTED, DRIFTED}
    assert trigger.expect >= {f"prefect.flow-run.{name}" for name in ended}
    if file == "starts":  # Kubernetes may take that long to find a node
        wait = template["variables"]["properties"]["pod_watch_timeout_seconds"]["default"]
        assert trigger.within.total_seconds() > wait
        assert not trigger.expect & trigger.after
        return
    for path in ("Makefile", "compose.yaml", "deploy/kubernetes/settings.yaml"):
        frequency = re.search(r"PREFECT_FLOWS_HEARTBEAT_FREQUENCY\W+(\d+)", (ROOT / path).read_text())
        assert float(frequency[1]) == trigger.within.total_seconds() / 3, path


def test_alerts_are_of_our_deployments_and_name_our_states():
    assert {NOT_JUDGED, PROMOTED, DRIFTED} < set(runpy.run_path(str(ROOT / "deploy/prepare.py"))["STATES"])
    assert all(deployment["tags"] == ["rankgrad"] for deployment in read("prefect.yaml")[0]["deployments"])


def test_an_alert_is_json_whatever_a_run_says_and_a_webhook_that_refuses_it_is_named_in_no_log(caplog):
    prepare = runpy.run_path(str(ROOT / "deploy/prepare.py"))
    run = FlowRun(flow_id=uuid4(), name='retrain: "é" & <!channel>', state=Failed(message="no \\ rows\nin {{ this }}"))
    register_user_template_filters(all_filters)  # as the server does
    named = {"flow": {"name": "retrain"}, "deployment": {"name": "nightly"}}  # which the server looks up
    assert set(matching_types_in_templates([prepare["PAYLOAD"]], types={*named})) == {*named}
    payload = render_user_template_sync(prepare["PAYLOAD"], {"flow_run": run, **named})
    with listening(lambda _: (404, None)) as (address, heard):
        block = prepare["webhook"](f"{address}/services/secret")
        assert asyncio.run(block.call(payload)).status_code == 404
    ((_, headers, message),) = heard
    assert headers["content-type"] == "application/json"
    # To Slack <!channel> calls everybody.
    assert message["text"].startswith(
        'retrain: "é" &amp; &lt;!channel&gt; (retrain/nightly): Failed\nno \\ rows\nin {{ this }}'
    )
    assert "secret" not in f"{caplog.text}{block}{block.model_dump_json()}"


def test_a_unit_gives_make_the_words_that_were_typed(tmp_path):
    """As systemd reads a line: quotes hold words together, a backslash escapes, and %% and $$ are % and $."""
    words = ["POOL=a b", 'NIGHTLY=0 3 * * * %h $HOME "q" \\']
    done("sh", "deploy/service.sh", *words, XDG_CONFIG_HOME=str(tmp_path))
    unit = (tmp_path / "systemd/user/rankgrad.service").read_text()
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    assert not re.search(r"[%$]", line.replace("%%", "").replace("$$", ""))
    assert shlex.split(line.replace("%%", "%").replace("$$", "$"))[1:] == ["up", *words]


@pytest.mark.parametrize(("folder", "words"), [("a\nEnvironment=B=c", []), ("a", ["POOL=gpu\nExecStartPre=/bin/true"])])
def test_what_would_be_another_line_of_a_unit_is_refused_and_nothing_is_written(folder, words, tmp_path):
    (tmp_path / folder).mkdir()
    done(
        "sh", ROOT / "deploy/service.sh", *words, folder=tmp_path / folder, fails=True, XDG_CONFIG_HOME=tmp_path / "to"
    )
    assert not (tmp_path / "to").exists()


def test_what_editors_leave_beside_data_is_none_of_it():
    assert {".#*", ".~lock.*#", ".DS_Store"} <= {*(ROOT / ".dvcignore").read_text().splitlines()}
