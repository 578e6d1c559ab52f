"""Counting the operations of a step in hardware: the agent's part.

Owns which attempts can be counted, and the ``counters`` events that the table of ``ncu`` becomes. What is counted is a
process of the attempt, with ``ncu`` before its command (``workers.trainer.loops.counters``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from workers.node.telemetry import ncu

PHASE = "counters"
STEPS = 1
# Judgement: as many launches in one event as still make a line that a person can look at.
CHUNK = 100
# Judgement: a step of a thousand kernels, each replayed a few times, is counted in a few minutes.
LIMIT_S = 480.0


def tool(job: Mapping[str, Any]) -> str | None:
    """Return the ``ncu`` by which ``job`` is to be counted; None where it cannot be, or nobody asked.

    Kernels are replayed while they are counted, and an exchange with other ranks would wait for itself: one rank only.
    """
    devices = [device for process in job["processes"] for device in process["devices"]]
    one_gpu = job["world_size"] == 1 and [device["kind"] for device in devices] == ["cuda"]
    return ncu.path() if one_gpu and "kernels" in (job["plan"].get("profile") or ()) else None


def log_in(folder: Path) -> Path:
    """Return where ``ncu`` writes its table."""
    return folder / "ncu.csv"


def command(where: str, folder: Path) -> list[str]:
    """Return what the command of the process is preceded by."""
    return ncu.command(where, str(log_in(folder)), ncu.available(where))


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the data of ``counters`` events: what ``ncu`` has written into ``folder``.

    Raises:
        NcuError: there is no table, or not all of it.
    """
    rows = ncu.rows(ncu.parse(said(folder)))
    if not rows:
        raise ncu.NcuError("ncu has seen no kernel in the step")
    return [
        {"tool": "ncu", "steps": STEPS, "kernels": rows[first : first + CHUNK]} for first in range(0, len(rows), CHUNK)
    ]


def said(folder: Path) -> str:
    """Return what ``ncu`` has written, as far as it came."""
    log = log_in(folder)
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
