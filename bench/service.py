"""A service of its own for a benchmark: a temporary data directory, a free port, ended by its process id."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")


class Service:
    """A running ``tbd serve``; ``data_dir`` holds its database and its embedded cluster."""

    def __init__(self, url: str, data_dir: str) -> None:
        self.url = url
        self.data_dir = data_dir

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def run_one(self, spec: Mapping[str, Any], poll_s: float = 0.5) -> Mapping[str, Any]:
        """Submit a spec with a single run, wait for its end, and return the run.

        Polls seldom: the service must not be kept busy while it measures.
        """
        experiment = self.call("POST", "/api/v1/experiments", spec)["id"]
        while True:
            (run,) = self.call("GET", f"/api/v1/experiments/{experiment}/runs")["items"]
            if run["state"] in TERMINAL:
                if run["state"] != "completed":
                    raise RuntimeError(f"run {run['id']} {run['state']}: {run.get('failure')}")
                return run
            time.sleep(poll_s)


@contextmanager
def running_service(**environment: str) -> Iterator[Service]:
    """Serve from a temporary data directory until the block ends."""
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as data_dir:
        command = [sys.executable, "-m", "orchestrator.app", "serve", "--port", "0", "--end-runs", "--json"]
        variables = {**os.environ, "TBD_DATA_DIR": data_dir, **environment}
        server = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                raise RuntimeError(f"the service did not start: exit status {server.wait()}")
            yield Service(json.loads(line)["url"], data_dir)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
