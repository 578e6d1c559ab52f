"""The profiles of runs: a row for each rank's profile, and the rows that it consists of."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import gradient_exchange, kernel, layer, memory_class, profile, profile_missing
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import (
    PAPER_CLASSES,
    GradientExchange,
    Kernel,
    KernelTable,
    Layer,
    LayerTimes,
    MemoryProfile,
    Profiles,
    Share,
)

TABLES = (profile, profile_missing, memory_class, kernel, layer, gradient_exchange)

Row = dict[str, Any]


def add(connection: Connection, run_id: str, analysis: Analysis) -> None:
    """Store those of ``analysis``."""
    for table, found in _rows(run_id, analysis.profiles, analysis.code_version).items():
        if found:
            connection.execute(insert(table), found)


def _rows(run_id: str, found: Profiles, code_version: str) -> dict[Table, list[Row]]:
    heads = [
        {"run_id": run_id, "code_version": code_version, **head, "facts": rows.to_text(head["facts"])}
        for head in _heads(found)
    ]
    missing = [
        {"run_id": run_id, "profile": name, "reason": _storable(why)} for name, why in sorted(found.reasons.items())
    ]
    shares = [
        {"run_id": run_id, "rank": one.rank, "class": name, **_fields(share)}
        for one in found.memory
        for name, share in {**one.classes, **one.parts}.items()
    ]
    return {
        profile: heads,
        profile_missing: missing,
        memory_class: shares,
        kernel: list(_numbered(run_id, [(one.rank, one.rows) for one in found.kernels])),
        layer: list(_numbered(run_id, [(one.rank, one.rows) for one in found.layers])),
        gradient_exchange: list(_numbered(run_id, [(one.rank, one.exchanges) for one in found.layers])),
    }


def _heads(found: Profiles) -> Iterator[Row]:
    for memory in found.memory:
        facts: Row = {
            "peak_bytes": memory.peak_bytes,
            "peak_method": memory.peak_method,
            "outside_bytes": memory.outside_bytes,
        }
        yield _head("memory", memory, facts)
    for table in found.kernels:
        yield _head("kernels", table, {"elapsed_s": table.elapsed_s, "active_s": table.active_s})
    for times in found.layers:
        facts = {"elapsed_s": times.elapsed_s, "serialised": times.serialised}
        facts["exposed_exchange_s"] = times.exposed_exchange_s
        yield _head("layers", times, facts | {"breakdown": dict(times.breakdown), "reasons": dict(times.reasons)})


def _head(name: str, one: MemoryProfile | KernelTable | LayerTimes, facts: Row) -> Row:
    return {"profile": name, "rank": one.rank, "method": _storable(one.method), "steps": one.steps, "facts": facts}


def _numbered(run_id: str, lists: Sequence[tuple[int, Sequence[Any]]]) -> Iterator[Row]:
    for rank, items in lists:
        for position, item in enumerate(items):
            yield {"run_id": run_id, "rank": rank, "position": position, **_fields(item)}


def _fields(item: Any) -> Row:
    return {name: _storable(getattr(item, name)) for name in item.__dataclass_fields__}


def _storable(value: Any) -> Any:
    """A framework may call its kernels what it likes; what PostgreSQL's text cannot hold is replaced."""
    return value.encode(errors="replace").decode().replace("\0", "?") if isinstance(value, str) else value


def read(connection: Connection, run_id: str) -> Profiles:
    """See ``domain.ports.Store.profiles``."""
    heads = connection.execute(
        select(profile).where(profile.c.run_id == run_id).order_by(profile.c.profile, profile.c.rank)
    ).all()
    missing = connection.execute(select(profile_missing).where(profile_missing.c.run_id == run_id)).all()
    reasons = {row.profile: row.reason for row in missing}
    if not heads:
        return Profiles(reasons=reasons)
    kernels = _lists(connection, kernel, Kernel, run_id)
    layers = _lists(connection, layer, Layer, run_id)
    exchanges = _lists(connection, gradient_exchange, GradientExchange, run_id)
    shares = _shares(connection, run_id)
    of = {name: [row for row in heads if row.profile == name] for name in ("memory", "kernels", "layers")}
    return Profiles(
        memory=tuple(_memory(row, shares[row.rank]) for row in of["memory"]),
        kernels=tuple(
            KernelTable(**_common(row), **_facts(row), rows=kernels.get(row.rank, ())) for row in of["kernels"]
        ),
        layers=tuple(
            LayerTimes(
                **_common(row), **_facts(row), rows=layers.get(row.rank, ()), exchanges=exchanges.get(row.rank, ())
            )
            for row in of["layers"]
        ),
        reasons=reasons,
    )


def _common(row: rows.AnyRow) -> Row:
    return {"rank": row.rank, "method": row.method, "steps": row.steps}


def _facts(row: rows.AnyRow) -> Row:
    facts: Row = json.loads(row.facts)
    return facts


def _memory(row: rows.AnyRow, shares: Mapping[str, Share]) -> MemoryProfile:
    classes = {name: shares[name] for name in PAPER_CLASSES}
    parts = {name: share for name, share in shares.items() if name not in PAPER_CLASSES}
    return MemoryProfile(**_common(row), **_facts(row), classes=classes, parts=parts)


def _shares(connection: Connection, run_id: str) -> dict[int, dict[str, Share]]:
    found: dict[int, dict[str, Share]] = {}
    for row in connection.execute(select(memory_class).where(memory_class.c.run_id == run_id)).mappings():
        found.setdefault(row["rank"], {})[row["class"]] = Share(row["max_bytes"], row["at_peak_bytes"])
    return found


def _lists(connection: Connection, table: Table, kind: Any, run_id: str) -> dict[int, tuple[Any, ...]]:
    """The rows of ``table`` by rank, in their order."""
    found: dict[int, list[Any]] = {}
    query = select(table).where(table.c.run_id == run_id).order_by(table.c.rank, table.c.position)
    for row in connection.execute(query):
        found.setdefault(row.rank, []).append(kind(**{name: getattr(row, name) for name in kind.__dataclass_fields__}))
    return {rank: tuple(items) for rank, items in found.items()}
