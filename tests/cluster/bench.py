"""A cluster on one machine: Ray on several hosts as a person would set it up, and ``tbd serve`` on the head.

The head has no device. ``one`` and ``two`` have a CPU device of one core each, ``three`` has two such devices: what is
placed by the names of nodes runs on 1x1, 2x1 or 1x2.
"""

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.hosts import Host
from tests.cluster.network import Network
from tests.support.service import TERMINAL, Service, seconds, until

ROOT = Path(__file__).resolve().parents[2]
HEAD = "head"
RAY_PORT = 6379
START_S = 180.0

# Ray as docs/operate/several_hosts.md says: nodes that are lost are noticed within seconds, training keeps its
# priority, and nothing measures Ray itself.
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_grpc_client_keepalive_time_ms": "3000",
    "RAY_grpc_client_keepalive_timeout_ms": "3000",
    "RAY_process_group_cleanup_enabled": "1",
    "RAY_worker_niceness": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Layout:
    """A host of the bench: its cores, how many seconds its clock is ahead, and its number of CPU devices."""

    cores: tuple[int, ...]
    clock_offset_s: int
    devices: int

    @staticmethod
    def of_this_machine() -> "dict[str, Layout]":
        """The bench's hosts, on the first and the last core of this machine (where there is one, on that one)."""
        cores = sorted(os.sched_getaffinity(0))
        first, last, both = cores[0], cores[-1], tuple(sorted({cores[0], cores[-1]}))
        return {
            HEAD: Layout(both, 0, 0),
            "one": Layout((first,), 1000, 1),
            "two": Layout((last,), 50000, 1),
            "three": Layout(both, 300, len(both)),
        }


class HostService(Service):
    """``tbd serve`` on a host, spoken to over that host's own network."""

    def __init__(self, host: Host, environment: Mapping[str, str]) -> None:
        super().__init__(host.outside / "data")
        self._host = host
        self._environment = dict(environment)

    def start(self, *, end_runs: bool = True) -> "HostService":
        options = ["--end-runs"] if end_runs else []
        words = [sys.executable, "-m", "orchestrator.app", "serve", "--port", "0", "--json", *options]
        log = self._host.outside / "serve.log"
        log.unlink(missing_ok=True)  # it says where the server before listened
        self._process = self._host.start(*words, environment=self._environment, log=log)
        self.url = until(lambda: _url_in(log) or self._process.poll(), START_S)
        if not isinstance(self.url, str):
            raise RuntimeError(f"tbd serve does not start: {log.read_text()}")
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._host.signal(self._process, how)
        return self._process.wait(timeout=60)

    def open(self, request: urllib.request.Request) -> Any:
        return urllib.request.build_opener(_FromHost(self._host)).open(request, timeout=60)


class _FromHost(urllib.request.HTTPHandler):
    """HTTP over connections that are made on a host."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def http_open(self, request: urllib.request.Request) -> Any:
        host = self._host

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                self.sock = host.connect((self.host, self.port), 60)

        return self.do_open(Connection, request)


class Bench:
    """Hosts, Ray and a service; ``close`` ends all of it.

    Args:
        folder: a short path; everything that the hosts keep lies in it.
        hosts: by name; one of them is the head.
        fence_s: the setting ``TBD_FENCE_S``.
        own: further variables of every host's environment.
    """

    def __init__(self, folder: Path, hosts: Mapping[str, Layout], fence_s: float = 5.0, **own: str) -> None:
        self.folder = folder
        self._own = own
        self._devices = {name: host.devices for name, host in hosts.items()}
        (folder / "token").write_text(secrets.token_hex(32))
        (folder / "token").chmod(0o600)
        self._fence_s = fence_s
        self.checkpoints = folder / "checkpoints"  # all hosts share it
        self.network = Network(folder, {name: (host.cores, host.clock_offset_s) for name, host in hosts.items()})
        self.hosts = self.network.hosts
        self.service = HostService(self.hosts[HEAD], {})

    def start(self) -> "Bench":
        self.network.boot()
        self.start_ray(HEAD)
        others = [self._ray(name) for name in self.hosts if name != HEAD]
        for process in others:
            assert process.wait(START_S) == 0
        environment = {
            "TBD_RAY_ADDRESS": f"{self.hosts[HEAD].address()}:{RAY_PORT}",
            "TBD_FENCE_S": f"{self._fence_s:g}",
        }
        self.service = HostService(self.hosts[HEAD], self.environment(HEAD) | environment).start()
        until(lambda: len(self.available()) == len(self.hosts), START_S, 0.5)
        return self

    def close(self) -> None:
        self.network.close()

    def environment(self, name: str) -> dict[str, str]:
        """What programs of tbd and Ray find on the host."""
        here = self.hosts[name].here
        kept = {key: text for key, text in os.environ.items() if not key.startswith(("TBD_", "RAY_", "PYTEST_"))}
        places = {key: os.environ[key] for key in ("TBD_INTERPRETERS_DIR", "TBD_DATASETS_DIR") if key in os.environ}
        ours = {
            "PYTHONPATH": str(ROOT),
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"),
            "TBD_DATA_DIR": str(here / "data"),
            "TBD_LOCK_DIR": str(here / "locks"),
            "TBD_CPU_DEVICES": str(self._devices[name]),
            "TBD_FABRICS": "ethernet=eth0,infiniband=ib0",
            "TBD_CHECKPOINTS": str(self.checkpoints),
        }
        return kept | RAY_ENVIRONMENT | places | ours | self._own

    def start_ray(self, name: str) -> None:
        """Start Ray on a host and wait until it is up."""
        status = self._ray(name).wait(START_S)
        if status:
            raise RuntimeError(f"ray does not start on {name}: {(self.hosts[name].outside / 'ray.log').read_text()}")

    def _ray(self, name: str) -> "subprocess.Popen[str]":
        host = self.hosts[name]
        options = {
            "node-ip-address": host.address(),
            "num-cpus": len(host.cores),
            "object-store-memory": 80_000_000,
            "dashboard-agent-listen-port": 0,
        }
        if name == HEAD:
            options |= {"head": None, "port": RAY_PORT, "include-dashboard": "false", "temp-dir": str(host.here / "r")}
        else:
            options |= {"address": f"{self.hosts[HEAD].address()}:{RAY_PORT}"}
        words = [f"--{option}" if value is None else f"--{option}={value}" for option, value in options.items()]
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", *words]
        return host.start(*start, environment=self.environment(name), log=host.outside / "ray.log")

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.service.call("GET", "/api/v1/nodes")["items"])

    def available(self) -> list[str]:
        """Names of the nodes that take runs now."""
        return [node["name"] for node in self.nodes() if node["state"] == "available"]

    def logs(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        """The stored logs of the last attempt of a run that has ended: node -> entries."""
        logs: dict[str, dict[str, list[dict[str, Any]]]] = {}
        path = f"/api/v1/runs/{run_id}/events"
        with self.service.open(urllib.request.Request(self.service.url + path)) as answer:
            for line in answer:
                text = line.decode().strip()
                if text.startswith("data: ") and "attempt_id" in (entry := json.loads(text[6:])):
                    entry["wall"] = seconds(entry["at"])
                    logs.setdefault(entry["attempt_id"], {}).setdefault(entry["node"], []).append(entry)
        return list(logs.values())[-1] if logs else {}

    def netbench(self, names: Sequence[str], library: str, fabric: str, **asked: Any) -> dict[str, Any]:
        """Time messages between these hosts; the run. Service and Ray need their cores too, so that it counts as
        disturbed and would be repeated: it is not."""
        body = {"topology": f"{len(names)}x1", "library": library, "fabric": fabric, "nodes": {"names": list(names)}}
        started = self.service.call("POST", "/api/v1/netbench", body | asked)["id"]
        run = until(
            lambda: next((one for one in self.service.runs(started) if one["state"] in TERMINAL), None), 900, 0.5
        )
        self.service.call("POST", f"/api/v1/experiments/{started}/cancel")
        self.service.wait(started, 60, 0.5)
        assert run["state"] == "completed", run["failure"]
        return dict(run)

    def sent_bytes(self, run_id: str, interface: str) -> float:
        """What all nodes sent over an interface while the last attempt of a run went on."""
        entries = [entry for log in self.logs(run_id).values() for entry in log if entry["kind"] == "reading"]
        values = [value for entry in entries for value in entry["data"]["values"]]
        wanted = ("sent_bytes", f"interface:{interface}")
        return float(sum(amount or 0 for metric, subject, amount in values if (metric, subject) == wanted))


@contextmanager
def running(layout: Mapping[str, Layout], fence_s: float = 5.0, **own: str) -> Iterator[Bench]:
    """A bench of its own, in a folder whose path is short: there are sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="tbd-", dir="/tmp"))
    bench = Bench(folder, layout, fence_s, **own)
    try:
        yield bench.start()
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)


def _url_in(log: Path) -> str | None:
    for line in log.read_text().splitlines():
        if line.startswith('{"url"'):
            return str(json.loads(line)["url"])
    return None


def trainers(host: Host) -> dict[int, str]:
    """The processes of attempts on the host: process id as seen from outside -> command line."""
    return {pid: command for pid, command in host.processes().items() if "workers.trainer" in command}
