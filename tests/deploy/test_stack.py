"""``docker compose up --wait`` from a clone: it comes up as it should, and nothing is lost whatever is killed.

The tests share one stack and follow each other. ``sleep`` only waits, so this is about containers, restarts and
volumes. Those that take a minute, and one that trains with PyTorch, are left to `make deploy-check`.
"""

import json
import subprocess
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.deploy.stack import Stack
from tests.support.certificates import certificate
from tests.support.service import TERMINAL, status_of, until

# The first test waits for all images to be built, at worst of nothing on a busy machine. That killed parts lose nothing
# is proved without containers in ``tests/faults`` and ``tests/integration``.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.after_change]
AGAIN_S = 120


def spec(steps: int = 40, **more: Any) -> dict[str, Any]:
    """``steps`` steps of 50 ms on the worker."""
    fields: dict[str, Any] = {
        "name": "waits",
        "model": "sleep",
        "framework": "sleep",
        "per_device_batch_size": 4,
        "options": {"step_time_s": 0.05, "noise_ratio": 0.3},
        "max_steps": steps,
        "min_measure_s": 3600,  # as many steps as are asked for
        "repeats": 1,
        "max_repeats": 1,
        "timeout_s": 120,
    }
    return fields | more


def under_way(stack: Stack, steps: int) -> str:
    """An experiment whose only run trains."""
    experiment = stack.api.submit(spec(steps))

    def trains() -> Any:
        (run,) = stack.api.runs(experiment)
        assert run["state"] not in ("failed", "completed"), run
        return stack.api.call("GET", f"/api/v1/runs/{run['id']}/intervals?limit=1")["items"]

    until(trains, 60, 0.3)
    return experiment


def is_let_in(stack: Stack) -> bool:
    try:
        return bool(stack.api.call("GET", "/api/v1/nodes"))
    except HTTPError:  # the service looks for new tokens every second
        return False


def is_over(stack: Stack, experiment: str) -> bool:
    try:
        return stack.api.call("GET", f"/api/v1/experiments/{experiment}")["state"] in TERMINAL
    except (OSError, HTTPException):  # the service is being started again; HTTPError is an OSError
        return False


def ended_well(stack: Stack, experiment: str) -> dict[str, Any]:
    """The only run of the experiment, once it has completed, with every step stored once."""
    until(lambda: is_over(stack, experiment), AGAIN_S, 0.5)
    (run,) = stack.api.runs(experiment)
    assert run["state"] == "completed", f"{run}\n{stack.said()}"
    intervals = stack.api.all(f"/api/v1/runs/{run['id']}/intervals")
    steps = [interval["first_step"] for interval in intervals]
    assert steps == sorted(set(steps))
    return run


def joined(stack: Stack, service: str = "worker") -> None:
    """Wait until the service's container is healthy: it has joined and offers devices."""
    container = stack.container(service)
    health = "{{.State.Health.Status}}"
    until(lambda: stack.engine.docker("inspect", "--format", health, container).strip() == "healthy", AGAIN_S, 1.0)


def test_without_a_token_it_is_closed_but_for_its_health(stack: Stack) -> None:
    assert stack.api.call("GET", "/readyz")["status"] == "ready"
    status, problem = status_of(lambda: stack.api.call("GET", "/api/v1/nodes"))
    assert (status, "tbd token add" in problem["detail"]) == (401, True)


def test_the_first_token_is_made_inside_and_submits_from_outside(stack: Stack, tmp_path: Path) -> None:
    said = stack.inside("control-plane", "tbd", "token", "add", "root", "--scope", "admin")
    stack.api.token = next(word for line in said.splitlines() for word in line.split() if word.startswith("tbd_"))
    until(lambda: is_let_in(stack), 10)
    assert stack.node("worker")["devices"]
    asked = tmp_path / "spec.json"
    asked.write_text(json.dumps(spec()))
    stack.tbd("submit", str(asked), "--wait")
    assert stack.tbd("results", "latest").stdout


def test_containers_are_those_of_a_careful_service(stack: Stack) -> None:
    found = stack.inspect()
    assert set(found) == {"postgres", "ray-head", "control-plane", "worker"}  # `secrets` has done its work
    for name, one in found.items():
        host = one["HostConfig"]
        assert one["Config"]["User"] not in ("", "root", "0"), name
        assert (host["Privileged"], host["CapAdd"], host["CapDrop"], host["Ulimits"]) == (False, None, ["ALL"], None), (
            name
        )
        assert host["RestartPolicy"]["Name"] == "unless-stopped", name
        assert one["State"]["Health"]["Status"] == "healthy", name
        published = [bound for bounds in (host["PortBindings"] or {}).values() for bound in bounds]
        assert [bound["HostIp"] for bound in published] == (["127.0.0.1"] if name == "control-plane" else []), name
    assert set(stack.inside("worker", "sh", "-c", "stat -c %U /proc/[0-9]* 2>/dev/null; true").split()) == {"tbd"}
    secret = stack.inside("control-plane", "cat", "/etc/tbd/secrets/database_password").strip()
    assert len(secret) == 64
    assert secret not in json.dumps(found)


@pytest.mark.parametrize("how", ["killed", "restarted"])
def test_a_run_goes_on_while_the_control_plane_is(stack: Stack, how: str) -> None:
    joined(stack)
    experiment = under_way(stack, steps=400)
    if how == "killed":
        stack.kill("control-plane")
    else:
        stack.compose("restart", "control-plane")
    run = ended_well(stack, experiment)
    assert len(run["attempts"]) == 1


def test_a_run_is_carried_out_again_when_the_worker_is_killed(stack: Stack) -> None:
    joined(stack)
    experiment = under_way(stack, steps=200)
    stack.kill("worker")
    run = ended_well(stack, experiment)
    assert [one["failure"] and one["failure"]["kind"] for one in run["attempts"]] == ["node_lost", None]


@pytest.mark.thorough
def test_all_find_together_again_when_the_head_of_ray_is_killed(stack: Stack) -> None:
    joined(stack)
    experiment = under_way(stack, steps=200)
    stack.kill("ray-head")
    run = ended_well(stack, experiment)
    assert run["attempts"][-1]["failure"] is None


@pytest.mark.thorough
def test_while_the_database_is_away_nothing_is_acknowledged_and_then_all_goes_on(stack: Stack) -> None:
    joined(stack)
    experiment = under_way(stack, steps=300)
    stack.compose("stop", "postgres")
    status, problem = status_of(lambda: stack.api.submit(spec(name="refused")))
    assert (status, problem["type"]) == (503, "urn:tbd:problem:database-unavailable")
    stack.compose("start", "postgres")
    ended_well(stack, experiment)
    assert "refused" not in [one["name"] for one in stack.api.all("/api/v1/experiments")]


@pytest.mark.thorough
def test_what_was_measured_is_there_again_after_down_and_up(stack: Stack) -> None:
    before = {one["id"] for one in stack.api.all("/api/v1/experiments")}
    assert before
    stack.down()
    assert stack.compose("ps", "-a", "-q") == ""
    stack.up()
    assert {one["id"] for one in stack.api.all("/api/v1/experiments")} == before
    assert stack.node("worker")["state"] == "available"


def test_a_secret_that_everybody_may_read_or_that_is_missing_is_refused_by_name(stack: Stack) -> None:
    variable = "TBD_DATABASE_PASSWORD_FILE"
    for path, why in (("/etc/tbd/secrets/none", "there is no file"), ("/tmp/open", "mode 0644")):
        script = f"echo secret >/tmp/open; chmod 644 /tmp/open; {variable}={path} tbd db check"
        words = ["compose", "exec", "-T", "control-plane", "sh", "-c", script]
        done: subprocess.CompletedProcess[str] = stack.engine.tried(*words, cwd=stack.tree)
        assert done.returncode == 2
        assert f"{variable}: {path}" in done.stderr or f"{variable}: there is no file {path}" in done.stderr
        assert why in done.stderr


@pytest.mark.thorough
def test_by_certificate_files_it_speaks_https_and_its_containers_stay_healthy(stack: Stack, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    stack.put_secret("tls_cert", cert.read_text())
    stack.put_secret("tls_key", key.read_text())
    stack.up(TBD_TLS_CERT="/etc/tbd/secrets/tls_cert", TBD_TLS_KEY="/etc/tbd/secrets/tls_key")
    try:
        assert stack.inspect()["worker"]["State"]["Health"]["Status"] == "healthy"
        url = stack.api.url.replace("http://127.0.0.1", "https://localhost")
        assert "worker" in stack.tbd("nodes", TBD_SERVER=url, TBD_CA_FILE=str(cert)).stdout
        assert "not believed" in stack.tbd("nodes", TBD_SERVER=url, code=4).stderr
    finally:
        stack.up()


@pytest.mark.thorough
def test_pytorch_trains_in_the_worker(stack: Stack) -> None:
    """Its environment is made inside, in the volume, and outlives the container."""
    stack.install("pytorch")
    real = {"model": "resnet-50", "framework": "pytorch", "size": "tiny", "options": {}}
    brief = {"name": "trains", "max_steps": 20, "per_device_batch_size": 2, "timeout_s": 600}
    (run,) = stack.api.wait(stack.api.submit(spec() | real | brief), 600, 1.0)
    assert run["state"] == "completed", run
    stack.compose("up", "--wait", "--force-recreate", "worker")
    found = json.loads(stack.tbd("frameworks", "--json").stdout)
    assert "pytorch" in json.dumps(found)
    (run,) = stack.api.wait(stack.api.submit(spec() | real | brief), 600, 1.0)
    assert run["state"] == "completed", run
