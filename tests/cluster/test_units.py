"""A host whose node is kept by its unit (deploy/ray) comes back by itself when it was cut off.

systemd is stood for by ``unit_keeper``, which does what the unit file says. Quick, it walks the whole way in half a
minute: the host is cut off for longer than the fence, Ray's health checks and its wait for the head, all of which are
shorter here. Thorough, the cables are out for two minutes.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bench import HEAD, RAY_ENVIRONMENT, RAY_PORT, ROOT, Bench, trainers
from tests.cluster.test_gang import running, spec
from tests.support.service import until

pytestmark = pytest.mark.after_change

UNIT = ROOT / "deploy" / "ray" / "tbd-ray-node.service"
# A node gives a head up that it cannot reach for so long: a part of the quick half minute.
HEAD_AWAY_S = "10"


def _etc(bench: Bench, name: str) -> Path:
    """The folder that stands for the host's /etc/tbd: the file of this repository, and what this host changes."""
    host, etc = bench.hosts[name], bench.hosts[name].outside / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "tbd.env").write_text((ROOT / "deploy" / "ray" / "tbd.env").read_text())
    places = {key: text for key, text in bench.environment(name).items() if key.startswith(("TBD_", "RAY_"))}
    own = RAY_ENVIRONMENT | places
    own["TBD_RAY_ADDRESS"] = f"{bench.hosts[HEAD].address()}:{RAY_PORT}"
    own["RAY_gcs_rpc_server_reconnect_timeout_s"] = HEAD_AWAY_S
    own["RAY_HOST_OPTIONS"] = f"--node-ip-address={host.address()} --num-cpus={len(host.cores)}"
    (etc / "host.env").write_text("".join(f"{key}={text}\n" for key, text in own.items()))
    return etc


@pytest.fixture
def unit_on_two(bench: Bench) -> Iterator[Path]:
    """The node of host ``two``, kept by its unit; the log of that."""
    host = bench.hosts["two"]
    host.cut_power()
    bench.network.boot("two")
    log = host.outside / "unit.log"
    log.unlink(missing_ok=True)
    words = [str(UNIT), str(_etc(bench, "two")), str(Path(sys.executable).parent)]
    plain = {key: text for key, text in bench.environment("two").items() if not key.startswith(("TBD_", "RAY_"))}
    host.start(sys.executable, "-m", "tests.cluster.unit_keeper", *words, environment=plain, log=log)
    try:
        until(lambda: "two" in bench.available(), 90, 0.5)
        yield log
    finally:
        bench.network.push_back("two")
        host.cut_power()
        bench.network.boot("two")
        bench.start_ray("two")
        until(lambda: "two" in bench.available(), 90, 0.5)


def _starts(log: Path) -> int:
    return log.read_text().count("unit: starts")


@pytest.mark.parametrize(
    "least_s", [pytest.param(0, id="quick"), pytest.param(120, id="two-minutes", marks=pytest.mark.thorough)]
)
# That a host which was cut off ends its processes, and that a node of Ray which
# begins anew joins again, are ``test_gang.py``'s: here it is the unit that begins it.
@pytest.mark.timeout(600)
def test_a_host_that_was_cut_off_in_mid_training_comes_back_and_the_run_ends_well(
    bench: Bench, unit_on_two: Path, least_s: float
) -> None:
    experiment = bench.service.submit(spec(steps=100, options={"step_time_s": 0.1}))
    running(bench, experiment)
    before, cut_at = _starts(unit_on_two), time.monotonic()
    bench.network.pull("two")
    until(lambda: not trainers(bench.hosts["two"]), 30, 0.2)  # by its own fence
    until(lambda: not trainers(bench.hosts["one"]), 60, 0.2)
    until(lambda: _starts(unit_on_two) > before, 90, 0.5)  # its node of Ray has ended, and cannot join yet
    until(lambda: time.monotonic() >= cut_at + least_s, least_s + 1, 0.5)
    bench.network.push_back("two")
    until(lambda: "two" in bench.available(), 90, 0.5)
    (run,) = bench.service.wait(experiment, 120)
    assert run["state"] == "completed", run
    assert len(run["attempts"]) == 2
    assert run["attempts"][0]["failure"]["kind"] == "node_lost"
    assert sorted(bench.logs(run["id"])) == ["one", "two"]


@pytest.mark.timeout(600)
def test_a_machine_that_is_back_before_ray_has_given_it_up_keeps_its_name_and_its_drain(bench: Bench) -> None:
    """Its power fails: nobody tells Ray, which finds out by its health checks."""

    def is_in(state: str) -> bool:
        return state in [one["state"] for one in bench.nodes() if one["name"] == "two"]

    bench.service.call("POST", "/api/v1/nodes/two/drain")
    try:
        bench.network.pull("two")
        bench.hosts["two"].cut_power()
        bench.network.boot("two")
        begins = bench._ray("two")
        until(lambda: is_in("unreachable"), 60, 0.2)
        assert begins.wait(90) == 0
        until(lambda: is_in("draining"), 90, 0.5)
        assert sorted(one["name"] for one in bench.nodes()) == sorted(bench.hosts)
    finally:
        bench.service.call("POST", "/api/v1/nodes/two/resume")
    until(lambda: "two" in bench.available(), 90, 0.5)
