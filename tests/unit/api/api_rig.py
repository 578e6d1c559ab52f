"""REST over the real store on a temporary SQLite file, and a cluster that only says what it consists of."""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.measurement import Analysis, Measurement, Reason, Validity
from orchestrator.domain.words.errors import NodeUnreachable
from orchestrator.serve.settings import read_settings
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.web.site import create_site
from tests.support.openapi_changes import description
from tests.unit import builders

MAX_BODY_BYTES = 20_000
MAX_LOG_BYTES = 50_000
AS_JSON = {"Content-Type": "application/json"}
AS_LOG = {"Content-Type": "application/jsonl"}
SPEC: dict[str, Any] = {
    "name": "first",
    "model": "net",
    "framework": "pytorch",
    "per_device_batch_size": 4,
    "repeats": 3,
}


class StandingCluster:
    """Nodes that stand still: nothing runs on them."""

    def __init__(self) -> None:
        self.unreachable: set[str] = set()

    def nodes(self) -> Sequence[Node]:
        return [builders.node("n0"), builders.node("n1")]

    def checks(self, node: str) -> Mapping[str, Any]:
        return {"gpus": {}, "machine": {}}

    def interpreters(self, node: str) -> Sequence[Mapping[str, Any]]:
        if node in self.unreachable:
            raise NodeUnreachable(node, "no answer within 5 s")
        return [
            {"name": "pytorch", "ready": True, "reason": None, "definition": "abc", "versions": {"torch": "2.13"}},
            {"name": "tensorflow", "ready": False, "reason": "run tbd frameworks install tensorflow"},
        ]


@cache
def _database() -> Path:
    """A SQLite file that has the schema, made once a process."""
    folder = tempfile.mkdtemp(prefix="tbd-rig-")
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / "tbd.sqlite3"
    admin.upgrade(f"sqlite:///{path}")
    return path


class Pieces(httpx.AsyncByteStream):
    """A body as a loop takes it, piece by piece."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._body:
            yield piece


class OneThread(httpx.BaseTransport):
    """Calls an application in the thread that asks. FastAPI's own client starts a thread and a loop for each request,
    which takes longer than most answers do."""

    def __init__(self, app: Any) -> None:
        self._app = httpx.ASGITransport(app, raise_app_exceptions=False, client=("testclient", 50000))
        self._loop = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._loop.run(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        asked = httpx.Request(request.method, request.url, headers=request.headers, stream=Pieces(request.stream))
        answer = await self._app.handle_async_request(asked)
        body = httpx.ByteStream(await answer.aread())
        return httpx.Response(answer.status_code, headers=answer.headers, stream=body)

    def close(self) -> None:
        self._loop.close()


class Rig:
    """``http`` talks to the application; ``wakes`` counts how often the reconciler was called."""

    def __init__(self, folder: Path) -> None:
        shutil.copy(_database(), folder / "tbd.sqlite3")
        self.store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
        self.cluster = StandingCluster()
        self.wakes = 0
        self.context = Context(self.store, self.cluster, builders.catalog(), SystemClock(), self._wake)  # type: ignore[arg-type]
        limits = {"TBD_MAX_BODY_BYTES": str(MAX_BODY_BYTES), "TBD_MAX_LOG_BYTES": str(MAX_LOG_BYTES)}
        settings = read_settings({"TBD_DATA_DIR": str(folder), **limits})
        self.app = create_site(self.context, settings)
        self.app.openapi = description  # type: ignore[method-assign]
        self.http = httpx.Client(transport=OneThread(self.app), base_url="http://localhost", follow_redirects=True)

    def _wake(self) -> None:
        self.wakes += 1

    def close(self) -> None:
        self.http.close()
        self.store.close()

    def submit(self, **changes: Any) -> dict[str, Any]:
        """The experiment that the default spec with ``changes`` makes."""
        answer = self.http.post("/api/v1/experiments", json=SPEC | changes)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of a path below /api/v1 that must be there."""
        answer = self.http.get(f"/api/v1{path}", params=parameters or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, run_id: str, node: str = "n0") -> str:
        """Have the run running; the id of its attempt."""
        attempt = builders.attempt(run_id, nodes=(node,), created_at=1.0)
        assert self.store.begin_attempt(run_id, attempt)
        assert self.store.move_run(run_id, RunState.PLACING, RunState.RUNNING, at=2.0)
        return attempt.id

    def finish(self, run_id: str, analysis: Analysis, to: RunState = RunState.COMPLETED, **more: Any) -> None:
        """Have a running run end."""
        assert self.store.move_run(run_id, RunState.RUNNING, RunState.COLLECTING, at=9.0)
        assert self.store.conclude(run_id, to, at=10.0, analysis=analysis, **more)

    def complete_all(self, experiment_id: str, rates: Sequence[float], **observed: Any) -> list[Run]:
        """Complete the runs of an experiment, oldest first, with these rates."""
        runs = list(self.store.runs_of(experiment_id))
        for run, value in zip(runs, rates, strict=True):
            self.start(run.id)
            self.finish(run.id, rate(value), fingerprint=fingerprint_of(**observed))
        return runs


def rate(value: float, *reasons: Reason) -> Analysis:
    """An analysis with this throughput, graded by ``reasons``, and a power nobody could read."""
    throughput = Measurement(
        "throughput",
        value,
        "images/s",
        "total work / total time",
        "images",
        value - 1,
        value + 1,
        0.95,
        60.0,
        "one run",
    )
    power = Measurement("power_w", None, "W", "none", reason="a CPU device has no power reading")
    return Analysis(Validity(tuple(reasons)), measurements=(throughput, power), code_version="1")


def fingerprint_of(**subject: Any) -> dict[str, Any]:
    """A fingerprint; ``subject`` is what may differ between two sides."""
    return {
        "workload": {"device_models": ["a cpu"], "cores_per_device": [1]},
        "subject": {"framework": "pytorch", "framework_version": "2.13"} | subject,
        "rig": {"nodes": {}},
        "condition": {},
        "workload_key": "w",
        "subject_key": repr(subject),
        "rig_key": "r",
    }


def entry(seq: int, kind: str, **data: Any) -> dict[str, Any]:
    """An entry of a log."""
    return {"seq": seq, "source": "w0", "t": float(seq), "wall": 1e9 + seq, "kind": kind, "rank": 0, "data": data}


def interval(seq: int, step: int) -> dict[str, Any]:
    return entry(seq, "interval", phase="timed", first_step=step, n=1, duration_s=0.5, work={"images": 4})
