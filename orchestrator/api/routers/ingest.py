"""Import the log of a job that was carried out without the service."""

from typing import Annotated, Any

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


async def _entries(request: Request) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number, line in enumerate((await request.body()).splitlines(keepends=True), start=1):
        try:
            entry, problems = border.parse_entry(line)
        except border.Malformed as error:
            if entries and not line.endswith(b"\n"):
                break  # the write of the last entry was cut short: what stands before it is a log that ends early
            raise MalformedBody(f"line {number} of the log is no JSON: {error}") from None
        if not isinstance(entry, dict):
            raise MalformedBody(f"line {number} of the log is no JSON object")
        if problems:
            raise InvalidRequest([Problem(f"/{number - 1}{one.pointer}", one.message) for one in problems])
        entries.append(entry)
    return entries


@router.post("/ingest", status_code=201, response_model=RunView, openapi_extra=LOG_BODY)
def post_ingest(
    context: Ctx,
    owner: Owner,
    entries: Annotated[list[dict[str, Any]], Depends(_entries)],
    key: IdempotencyKey = None,
) -> Response:
    """Import a log, such as ``python -m workers.node JOB.json --events OUT.jsonl`` writes, as a run. The log names its
    attempt: importing it again answers the same run."""

    def bring_in() -> Run:
        return import_log(context, entries, owner)

    # The same log again is the same run: the act itself is the look.
    run, headers = carried_out_once(context, owner, key, ("ingest", entries), bring_in, bring_in)
    return answer(run_view(run), 201, {"Location": f"/api/v1/runs/{run.id}"} | headers)
