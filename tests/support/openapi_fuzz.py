"""The API held to its OpenAPI description by schemathesis, against a real server with real runs in a real store.

``python -m tests.support.openapi_fuzz --examples 100`` (``make fuzz``) looks longer than the test does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import uvicorn

from orchestrator.api.http_protocol import HttpProtocol
from orchestrator.api.server import create_app
from orchestrator.app import listen, running_service
from orchestrator.cli.client import Client
from orchestrator.settings import read_settings

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tests" / "support" / "schemathesis.toml"
# A run that was profiled, one of several ranks, one that failed, one that trained, one that was disturbed.
LOGS = ("good_gang", "killed_rank", "steady_pytorch", "disturbed_lstm", "out_of_memory_pytorch")
HELD = {"name": "held", "model": "sleep", "framework": "sleep", "per_device_batch_size": 1, "size": "tiny"}


@contextmanager
def filled_server(folder: Path) -> Iterator[str]:
    """The URL of a server whose live streams end with what is stored: a client that tries everything cannot wait for
    experiments that run for hours. No interpreter is installed there, so no framework trains."""
    environment = {
        "TBD_DATA_DIR": str(folder),
        "TBD_CLUSTER": "local",
        "TBD_LOCK_DIR": str(folder / "locks"),
        "TBD_INTERPRETERS_DIR": str(folder / "interpreters"),
    }
    settings = replace(read_settings(environment), port=0)
    agents = patch.dict(os.environ, environment)  # they are processes of their own
    with agents, running_service(settings, folder) as context, listen(settings) as listener:
        app = create_app(context, settings, stopping=lambda: True)
        server = uvicorn.Server(uvicorn.Config(app, http=HttpProtocol, log_level="critical", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            _fill(Client(url))
            yield url
        finally:
            server.should_exit = True
            thread.join()


def _fill(client: Client) -> None:
    for name in LOGS:
        client.post("/ingest", raw=(ROOT / "tests" / "replays" / "logs" / f"{name}.jsonl").read_bytes())
    client.post("/experiments", HELD)


def fuzz(url: str, folder: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """What schemathesis finds in the server at ``url``, in all its phases. It keeps what it found in ``folder`` and
    tries that first, next time."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "--no-color"]
    command += ["run", f"{url}/openapi.json", "--continue-on-failure", *arguments]
    runs = " ".join(run["id"] for run in Client(url).pages("/runs")["items"])
    environment = {**os.environ, "TBD_FUZZ_RUNS": runs, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", default="100", help="test cases for each operation and phase")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tbd-fuzz-") as folder, filled_server(Path(folder)) as url:
        found = fuzz(url, Path(folder), ["--max-examples", options.examples, "--seed", options.seed])
    print(found.stdout, found.stderr)
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
