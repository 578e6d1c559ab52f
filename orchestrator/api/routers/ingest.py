"""Import the log of a job that was carried out without the service."""

import hashlib
import tempfile
from array import array
from collections.abc import AsyncIterator
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Depends, Request, Response

from orchestrator.api.identity import Owner
from orchestrator.api.problems import MalformedBody
from orchestrator.api.requests import Ctx, IdempotencyKey, carried_out_once
from orchestrator.api.views.common import answer
from orchestrator.api.views.runs import RunView, run_view
from orchestrator.domain import border
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.run import Run
from orchestrator.services.ingest_log import import_log
from orchestrator.services.log_file import LogFile

router = APIRouter(tags=["runs"])
LOG_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "description": "one entry of the log a line"}}
            for media_type in ("application/jsonl", "application/x-ndjson")
        },
    }
}


async def _received(request: Request) -> AsyncIterator[BinaryIO]:
    """The body in a file: of a long log no more is in memory than what is being looked at."""
    with tempfile.TemporaryFile() as file:
        async for chunk in request.stream():
            file.write(chunk)
        yield file


def _entries(file: Annotated[BinaryIO, Depends(_received)]) -> LogFile:
    """Each entry is looked at once. Not async: others are served meanwhile."""
    starts, digest, start = array("Q"), hashlib.sha256(), 0
    file.seek(0)
    for number, line in enumerate(file, start=1):
        if not _is_entry(number, line):
            break
        starts.append(start)
        start += len(line)
        digest.update(line)
    return LogFile(file, starts, digest.hexdigest())


def _is_entry(number: int, line: bytes) -> bool:
    """False for a last line whose write was cut short: what stands before it is a log that ends early.

    Raises:
        MalformedBody: it is no JSON object.
        InvalidRequest: it holds text or numbers that nothing may hold.
    """
    try:
        entry, problems = border.parse_entry(line)
    except border.Malformed as error:
        if number > 1 and not line.endswith(b"\n"):
            return False
        raise MalformedBody(f"line {number} of the log is no JSON: {error}") from None
    if not isinstance(entry, dict):
        raise MalformedBody(f"line {number} of the log is no JSON object")
    if problems:
        raise InvalidRequest([Problem(f"/{number - 1}{one.pointer}", one.message) for one in problems])
    return True


@router.post("/ingest", status_code=201, response_model=RunView, openapi_extra=LOG_BODY)
def post_ingest(
    context: Ctx,
    owner: Owner,
    entries: Annotated[LogFile, Depends(_entries)],
    key: IdempotencyKey = None,
) -> Response:
    """Import a log, such as ``python -m workers.node JOB.json --events OUT.jsonl`` writes, as a run. The log names its
    attempt: importing it again answers the same run."""

    def bring_in() -> Run:
        return import_log(context, entries, owner)

    # The same log again is the same run: the act itself is the look.
    run, headers = carried_out_once(context, owner, key, ("ingest", entries.digest), bring_in, bring_in)
    return answer(run_view(run), 201, {"Location": f"/api/v1/runs/{run.id}"} | headers)
