"""Exports: results as a file for other tools, and an experiment with its logs to compute anew; streamed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from orchestrator.api.exports import mllog, parquet, tables
from orchestrator.api.requests import RFC3339, Ctx, Label, OfOwner, parse_label, parse_time
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.intake.record import record
from orchestrator.services.result import export
from orchestrator.services.result.export import Part, Rows
from orchestrator.services.result.export_columns import CELLS, RUNS, Column
from workers.trainer.protocol import to_json

router = APIRouter(tags=["results"])


class Format(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    MLLOG = "mllog"


class Written(NamedTuple):
    """How a format is written, and what it is called on the wire."""

    media_type: str
    write: Callable[[Sequence[Column], Iterable[Part]], Iterator[bytes]]


FORMATS: dict[Format, Written] = {
    Format.CSV: Written("text/csv; charset=utf-8; header=present", tables.csv),
    Format.JSONL: Written("application/jsonl", tables.json_lines),
    Format.PARQUET: Written("application/vnd.apache.parquet", parquet.parquet),
    Format.MLLOG: Written("text/plain; charset=utf-8", mllog.mllog),
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, as a stream.",
        "content": {
            one.media_type.partition(";")[0]: {
                "schema": {"type": "string"} | ({"format": "binary"} if kind is Format.PARQUET else {})
            }
            for kind, one in FORMATS.items()
        },
    }
}


@router.get("/export", response_class=Response, responses=_ANSWER)
def export_results(
    context: Ctx,
    format: Format = Format.CSV,
    rows: Annotated[Rows | None, Query(description="a line for each cell, or for each run (mllog: only these)")] = None,
    owner: OfOwner = None,
    experiment: Annotated[str | None, Query(max_length=100, description="id of the only experiment")] = None,
    model: str | None = None,
    framework: str | None = None,
    gpu_model: str | None = None,
    label: Label = None,
    series: Annotated[str | None, Query(max_length=100, description="a workload_key")] = None,
    since: Annotated[str | None, Query(description="only experiments submitted from then on", **RFC3339)] = None,
    until: Annotated[str | None, Query(description="only experiments submitted before", **RFC3339)] = None,
) -> Response:
    """Results as a file: one line per cell and experiment, or per run; the newest experiment first.
    docs/use/export.md has the columns. It is sent while it is made: where the database goes away meanwhile, the
    connection breaks off."""
    wanted = CellFilter(
        owner,
        experiment_id=experiment,
        model=model,
        framework=framework,
        gpu_model=gpu_model,
        label=parse_label(label),
        series=series,
        since=parse_time("since", since),
        until=parse_time("until", until),
    )
    written, chosen = FORMATS[format], _checked(format, rows)
    columns = CELLS if chosen is Rows.CELLS else RUNS
    content = written.write(columns, _begun(export.parts(context, wanted, chosen)))
    headers = {"Content-Disposition": f'attachment; filename="tbd-export.{format}"'}
    return StreamingResponse(content, headers=headers, media_type=written.media_type)


@router.get(
    "/experiments/{experiment_id}/record",
    response_class=Response,
    responses={
        200: {
            "description": "JSON lines: the experiment with its runs, then each entry of their logs.",
            "content": {"application/jsonl": {"schema": {"type": "string"}}},
        }
    },
)
def export_record(context: Ctx, experiment_id: str) -> Response:
    """All of an experiment that cannot be computed: its spec, plans, attempts and every entry of their logs, as a
    passport holds them (tbd passport)."""
    lines = (f"{to_json(one)}\n".encode() for one in record(context, experiment_id))
    return StreamingResponse(lines, media_type="application/jsonl")


def _checked(format: Format, rows: Rows | None) -> Rows:
    """What a line is about. Raises InvalidRequest where this server, or the format, cannot do it."""
    if format is Format.PARQUET:
        parquet.check()
    if format is Format.MLLOG and rows is Rows.CELLS:
        raise InvalidRequest([Problem("/rows", "mllog has the lines of runs: leave rows out, or say runs")])
    return rows or (Rows.RUNS if format is Format.MLLOG else Rows.CELLS)


def _begun(parts: Iterator[Part]) -> Iterator[Part]:
    """The same, with the first part at hand: what goes wrong with it is still answered as a problem."""
    return chain([next(parts)], parts)
