"""The API held to its OpenAPI description by schemathesis, against a real server with real runs in a real store:
without tokens, and with one of each scope.

``python -m tests.support.openapi_fuzz --examples 100`` (``make fuzz``) looks longer than the test does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import uvicorn
from fastapi import FastAPI

from orchestrator.api.door.http_protocol import HttpProtocol
from orchestrator.api.server import create_app
from orchestrator.app import listen, running_service
from orchestrator.cli.rest.client import Client
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Actor, Scope, Token
from orchestrator.domain.around.server import Server
from orchestrator.serve.settings import read_settings
from orchestrator.services import tokens
from orchestrator.services.clock import SystemClock
from orchestrator.services.tokens import REFRESH_S

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tests" / "support" / "schemathesis.toml"
# A run that was profiled, one of several ranks, one that failed, one that trained, one that was disturbed.
LOGS = ("good_gang", "killed_rank", "steady_pytorch", "disturbed_lstm", "out_of_memory_pytorch")
SERVER = Server("http://127.0.0.1", "here", os.getpid(), time.time())
HELD = {"name": "held", "model": "sleep", "framework": "sleep", "per_device_batch_size": 1, "size": "tiny"}


class Served(NamedTuple):
    """A server, and where its tokens are made."""

    url: str
    app: FastAPI
    store: SqlStore

    def token(self, scope: str) -> tuple[Token, str]:
        """A new token and its text. From the first one on the server asks for one."""
        by = Actor("root", Scope.ADMIN)
        return tokens.add(self.store, SystemClock(), {"name": f"fuzz-{scope}", "scope": scope}, by)


@contextmanager
def filled_server(folder: Path) -> Iterator[Served]:
    """A server whose live streams end with what is stored: a client that tries everything cannot wait for
    experiments that run for hours. No interpreter is installed there, so no framework trains."""
    environment = {
        "TBD_DATA_DIR": str(folder),
        "TBD_CLUSTER": "local",
        "TBD_LOCK_DIR": str(folder / "locks"),
        "TBD_INTERPRETERS_DIR": str(folder / "interpreters"),
        "TBD_RATE_LIMIT": "0",
    }
    settings = replace(read_settings(environment), port=0)
    agents = patch.dict(os.environ, environment)  # they are processes of their own
    with agents, running_service(settings, folder, SERVER) as context, listen(settings) as listener:
        app = create_app(context, settings, stopping=lambda: True)
        server = uvicorn.Server(uvicorn.Config(app, http=HttpProtocol, log_level="critical", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            _fill(Client(url))
            yield Served(url, app, context.store)  # type: ignore[arg-type]
        finally:
            server.should_exit = True
            thread.join()


def _fill(client: Client) -> None:
    for name in LOGS:
        client.post("/ingest", raw=(ROOT / "tests" / "replays" / "logs" / f"{name}.jsonl").read_bytes())
    client.post("/experiments", HELD)


def fuzz(
    served: Served, folder: Path, arguments: Sequence[str], scope: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """What schemathesis finds in the server, in all its phases, with a token of ``scope`` or without any. It keeps what
    it found in ``folder`` and tries that first, next time."""
    runs = " ".join(run["id"] for run in Client(served.url).pages("/runs")["items"]) if scope is None else ""
    environment = {**os.environ, "TBD_FUZZ_RUNS": runs, "PYTHONPATH": str(ROOT)}
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG.read_text("utf-8"))
    if scope is None:
        # A token that it made would end it: from then on every request needs one. Before that nobody is asked for one.
        arguments = [*arguments, "--exclude-path", "/api/v1/tokens"]
        for operations in served.app.openapi()["paths"].values():
            for operation in operations.values():
                operation.pop("security", None)
    else:
        token, text = served.token(scope)
        time.sleep(REFRESH_S)  # until the server has seen it
        with config.open("a") as file:
            file.write('\n[auth.openapi.bearer]\nbearer = "${TBD_FUZZ_TOKEN}"\n')
        runs = " ".join(run["id"] for run in Client(served.url, text).pages("/runs")["items"])
        environment |= {"TBD_FUZZ_SCOPE": scope, "TBD_FUZZ_TOKEN": text, "TBD_FUZZ_RUNS": runs}
        environment["TBD_FUZZ_TOKEN_ID"] = f"{token.id} {token.name}"
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "--no-color"]
    command += ["run", f"{served.url}/openapi.json", "--continue-on-failure", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", default="100", help="test cases for each operation and phase")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    codes = []
    for scope in (None, *(scope.value for scope in Scope)):
        with tempfile.TemporaryDirectory(prefix="tbd-fuzz-") as folder, filled_server(Path(folder)) as served:
            wanted = ["--max-examples", options.examples, "--seed", options.seed]
            found = fuzz(served, Path(folder), wanted, scope)
        print(f"{scope or 'without tokens'}:\n{found.stdout} {found.stderr}", flush=True)
        codes.append(found.returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
