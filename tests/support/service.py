"""A service of one's own: a data directory, a free port, ended by its process id."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")


class Service:
    """A ``tbd serve`` process on ``data_dir``. ``start`` and ``kill`` may be called again and again."""

    module = "orchestrator.app"

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        self.url = ""
        locks = str(data_dir.parent / "locks")  # not those of other services on this machine
        self._environment = {**os.environ, "TBD_DATA_DIR": str(data_dir), "TBD_LOCK_DIR": locks, **environment}
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, end_runs: bool = True) -> "Service":
        """``end_runs``: an orderly stop ends what trains, so that a test leaves nothing behind."""
        options = ["--end-runs"] if end_runs else []
        command = [sys.executable, "-m", self.module, "serve", "--port", "0", "--json", *options]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the service did not start: exit status {self._process.wait()}")
        self.url = json.loads(line)["url"]
        return self

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self._process is not None
        return self._process.pid

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the server process, in an orderly way or by SIGKILL; its exit status."""
        assert self._process is not None
        self._process.send_signal(how)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait(timeout=60)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer's JSON; None where it has no content.

        Raises:
            urllib.error.HTTPError: an answer of 400 or more.
        """
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        request = urllib.request.Request(self.url + path, data, sent, method=method)
        with self.open(request) as answer:
            return None if answer.status == 204 else json.load(answer)

    def open(self, request: urllib.request.Request) -> Any:
        """Send the request over the network."""
        return urllib.request.urlopen(request, timeout=60)

    def submit(self, spec: Mapping[str, Any]) -> str:
        return str(self.call("POST", "/api/v1/experiments", spec)["id"])

    def runs(self, experiment: str) -> list[dict[str, Any]]:
        """All runs of the experiment, oldest first."""
        items = self.call("GET", f"/api/v1/experiments/{experiment}/runs?limit=500")["items"]
        return sorted(items, key=lambda run: (run["created_at"], run["id"]))

    def all(self, path: str) -> list[dict[str, Any]]:
        """All items of a list, page by page."""
        items: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = self.call("GET", f"{path}?limit=500{cursor}")
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            cursor = f"&cursor={urllib.parse.quote(page['next_cursor'])}"

    def wait(self, experiment: str, timeout_s: float = 60, poll_s: float = 0.1) -> list[dict[str, Any]]:
        """The runs of the experiment once it is over."""
        until(lambda: self.call("GET", f"/api/v1/experiments/{experiment}")["state"] in TERMINAL, timeout_s, poll_s)
        return self.runs(experiment)

    def run_one(self, spec: Mapping[str, Any], poll_s: float = 0.5, timeout_s: float = 900) -> dict[str, Any]:
        """Submit a spec with a single run, wait for its end, and return the run.

        Polls seldom: the service must not be kept busy while it measures.

        Raises:
            RuntimeError: the run did not complete.
        """
        (run,) = self.wait(self.submit(spec), timeout_s, poll_s)
        if run["state"] != "completed":
            raise RuntimeError(f"run {run['id']} {run['state']}: {run.get('failure')}")
        return run


def until(condition: Callable[[], Any], timeout_s: float = 30, poll_s: float = 0.05) -> Any:
    """Poll until ``condition()`` is true, and return what it gave.

    Raises:
        TimeoutError: it was not true in time.
    """
    end = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s: {condition}")
        time.sleep(poll_s)
    return value


@contextmanager
def running_service(kind: type[Service] = Service, **environment: str) -> Iterator[Service]:
    """Serve from a temporary data directory until the block ends."""
    with tempfile.TemporaryDirectory(prefix="tbd-") as folder:
        service = kind(Path(folder) / "data", **environment).start()
        try:
            yield service
        finally:
            service.stop()


def seconds(at: str) -> float:
    """Seconds since the epoch of a time as REST shows it."""
    return datetime.fromisoformat(at).timestamp()


def status_of(call: Callable[[], Any]) -> tuple[int, dict[str, Any]]:
    """(status, problem) of a call that is refused.

    Raises:
        AssertionError: it was not refused.
    """
    try:
        answer = call()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")
    raise AssertionError(f"not refused: {answer}")
