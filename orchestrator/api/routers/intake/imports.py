"""Histories that other tools measured: bring them in, look at them, remove them."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.received import ReceivedBody
from orchestrator.api.requests import Ctx, Cursor, IdempotencyKey, Limit, OfOwner, carried_out_once
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.imports import ImportedPointView, ImportView, import_view
from orchestrator.domain.around.imported_points import ImportedFilter
from orchestrator.services.intake.import_points import Imported, import_milabench, remove_imported

router = APIRouter(tags=["history"])
Word = Annotated[str | None, Query(max_length=300)]
_ARCHIVE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/x-tar": {
                "schema": {"type": "string", "format": "binary", "description": "tar of result files"}
            }
        },
    }
}


class Tool(StrEnum):
    """The tools whose files are known."""

    MILABENCH = "milabench"


@router.post("/imports", status_code=201, response_model=ImportView, openapi_extra=_ARCHIVE)
def import_points(
    context: Ctx,
    who: Who,
    body: ReceivedBody,
    tool: Tool,
    name: Annotated[str, Query(max_length=100, description="where it comes from; part of its series")] = "",
    key: IdempotencyKey = None,
) -> Response:
    """Import the result files of another tool as points of series of their own: all of them or, where one is not what
    it should be, none. The same files again add nothing."""

    def bring_in() -> Imported:
        body.file.seek(0)
        return import_milabench(context, body.file, name, who)

    done, headers = carried_out_once(context, who.owner, key, ("import", tool, name, body.sha256), bring_in, bring_in)
    return answer(import_view(done), 201, headers)


@router.get("/imports", response_model=PageView[ImportedPointView])
def list_imported_points(
    context: Ctx,
    owner: OfOwner = None,
    series: Word = None,
    source: Word = None,
    tool: Tool | None = None,
    benchmark: Word = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Imported points, the latest session first."""
    wanted = ImportedFilter(owner, series, source, tool, benchmark)
    return answer(page_view(context.store.imported(wanted, limit=limit, cursor=cursor), ImportedPointView.of))


@router.delete("/imports/{point_id}", status_code=204, response_class=Response)
def delete_imported_point(context: Ctx, who: Who, point_id: str) -> Response:
    """Remove an imported point."""
    remove_imported(context, point_id, who)
    return Response(status_code=204)
