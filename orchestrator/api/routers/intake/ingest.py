"""Import the log of a job that was carried out without the service."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.problems import MalformedBody
from orchestrator.api.received import ReceivedBody
from orchestrator.api.requests import Ctx, IdempotencyKey, carried_out_once
from orchestrator.api.views.common import answer
from orchestrator.api.views.runs import RunView, run_view
from orchestrator.domain.asked.spec import NAME_PATTERN
from orchestrator.domain.runs.run import Run
from orchestrator.domain.words import untrusted
from orchestrator.services.intake.import_log import IMPORTED, import_log

router = APIRouter(tags=["runs"])
LOG_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary", "description": "one entry of the log a line"}}
            for media_type in ("application/jsonl", "application/x-ndjson")
        },
    }
}


@router.post("/ingest", status_code=201, response_model=RunView, openapi_extra=LOG_BODY)
def ingest_log(
    context: Ctx,
    who: Who,
    body: ReceivedBody,
    name: Annotated[str, Query(pattern=f"^{NAME_PATTERN}$", description="of the experiment")] = IMPORTED,
    key: IdempotencyKey = None,
) -> Response:
    """Import a log, such as ``python -m workers.node JOB.json --events OUT.jsonl`` writes, as a run. The log names its
    attempt: importing it again answers the same run. Of several logs, with an empty line between two, each becomes a
    run of one experiment, and the first is answered. Of a run on several nodes their logs stand one behind the other,
    with no empty line."""

    def bring_in() -> Run:
        try:
            return import_log(context, body.file, who, name)
        except untrusted.Malformed as error:
            raise MalformedBody(str(error)) from None

    # The same log again is the same run: the act itself is the look.
    run, headers = carried_out_once(context, who.owner, key, ("ingest", name, body.sha256), bring_in, bring_in)
    return answer(run_view(run), 201, {"Location": f"/api/v1/runs/{run.id}"} | headers)
