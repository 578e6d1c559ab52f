"""Parquet, written by pyarrow, the format's own implementation. It is large (170 MB installed), so it is an extra of
tbd's package: ``tbd-orchestrator[parquet]``."""

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

from orchestrator.api.exports.tables import json_text
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.untrusted import mended
from orchestrator.services.result.export import Part
from orchestrator.services.result.export_columns import Column, Kind, Record, record_of

# Rows that are written together: a judgement. Readers like row groups large, what is in memory is one of them.
GROUP = 1000


def check() -> None:
    """Raises InvalidRequest where the server has no pyarrow."""
    if find_spec("pyarrow") is None:
        why = (
            "this server cannot write Parquet, pyarrow is not installed beside it: whoever runs it does that with "
            "pip install 'tbd-orchestrator[parquet]'; csv and jsonl have the same columns"
        )
        raise InvalidRequest([Problem("/format", why)])


def parquet(columns: Sequence[Column], parts: Iterable[Part]) -> Iterator[bytes]:
    """One file of row groups; each column is a field with its unit and what it means in its metadata."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema = pyarrow.schema([_field(pyarrow, column) for column in columns])
    sink = _Sink()
    with ParquetWriter(pyarrow.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        for records in _groups(columns, parts):
            writer.write_batch(_batch(pyarrow, schema, columns, records))
            yield sink.taken()
    yield sink.taken()


class _Sink:
    """A file that is written to and never read: what was written can be taken out of it."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: Any) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def taken(self) -> bytes:
        whole = b"".join(self._written)
        self._written.clear()
        return whole


def _groups(columns: Sequence[Column], parts: Iterable[Part]) -> Iterator[list[Record]]:
    waiting: list[Record] = []
    for part in parts:
        waiting += [record_of(tuple(columns), line) for line in part]
        while len(waiting) >= GROUP:
            yield waiting[:GROUP]
            del waiting[:GROUP]
    if waiting:
        yield waiting


def _field(pyarrow: Any, column: Column) -> Any:
    types = {
        Kind.TEXT: pyarrow.string(),
        Kind.JSON: pyarrow.string(),
        Kind.INTEGER: pyarrow.int64(),
        Kind.NUMBER: pyarrow.float64(),
        Kind.TRUTH: pyarrow.bool_(),
        Kind.TIME: pyarrow.timestamp("us", tz="UTC"),
    }
    about = {"description": column.text} | ({"unit": column.unit} if column.unit else {})
    return pyarrow.field(column.name, types[column.kind], metadata=about)


def _batch(pyarrow: Any, schema: Any, columns: Sequence[Column], records: Sequence[Record]) -> Any:
    arrays = [
        pyarrow.array([_value(column.kind, record[column.name]) for record in records], field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.record_batch(arrays, schema=schema)


def _value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind is Kind.TIME:
        return round(value * 1e6)
    if kind is Kind.NUMBER:
        return float(value)
    if kind is Kind.TEXT:
        return mended(str(value))
    return json_text(value) if kind is Kind.JSON else value
