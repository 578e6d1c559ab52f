"""Reading the recorded logs and what is made of one of them, and what is asked of an analysis of one."""

import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.facts.catalog import load_catalog

FOLDER = Path(__file__).parent
# Those of a virtual machine without a GPU, and those of a GPU.
LOGS = {path.stem: path for folder in ("logs", "gpu") for path in sorted((FOLDER / folder).glob("*.jsonl"))}
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "expected.toml").read_text())

KINDS = load_catalog().kernel_kinds

Entries = list[dict[str, Any]]
CUT_AFTER = 220  # two thirds of the lines of `good_gang`


def cut(ending: str) -> bytes:
    """The first two thirds of ``good_gang``; ``ending``: where the cut lies."""
    lines = raw("good_gang").splitlines(keepends=True)
    torn = lines[CUT_AFTER][: len(lines[CUT_AFTER]) // 2] if ending == "in a line" else b""
    return b"".join(lines[:CUT_AFTER]) + torn


def own_file() -> bytes:
    """What rank 0 of ``good_gang`` wrote itself, before the agent numbered it."""
    own = [entry for entry in entries_of("good_gang") if entry["source"] == "worker0"]
    for entry in own:
        del entry["seq"], entry["source"]
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in own)


# Logs that are spoiled copies of `good_gang`.
MADE: dict[str, Callable[[], bytes]] = {
    "cut_at_a_line": lambda: cut("at a line"),
    "cut_in_a_line": lambda: cut("in a line"),
    "replaced": own_file,
}


def raw(name: str) -> bytes:
    return MADE[name]() if name in MADE else LOGS[name].read_bytes()


def entries_of(name: str) -> Entries:
    return whole_lines(raw(name))


def whole_lines(log: bytes) -> Entries:
    """The entries of all whole lines, as an agent reopens a log: a torn last line is no entry."""
    return [json.loads(line) for line in log.split(b"\n")[:-1]]


def analysed(entries: Sequence[dict[str, Any]], node: str | None = None) -> Analysis:
    return analyse({node or entries[0]["data"]["node"]: entries}, KINDS)


def told(analysis: Analysis) -> dict[str, Any]:
    """What ``expected.toml`` has of an analysis, without what is absent."""
    failure, stopped = analysis.failure, analysis.summary.get("stopped") or {}
    everything = {
        "failure": failure and failure.kind.value,
        "ranks": list(failure.ranks) if failure else None,
        "exit_code": failure and failure.exit_code,
        "signal": failure and failure.signal,
        "before_first_step": failure and failure.before_first_step,
        "grade": analysis.validity.grade.value,
        "reasons": [reason.code for reason in analysis.validity.reasons],
        "steady": analysis.summary.get("steady", {}).get("state"),
        "steps": analysis.summary.get("steps"),
        "stopped": stopped.get("reason"),
        "throughput": _rounded(analysis.measurement("throughput")),
    }
    return {name: value for name, value in everything.items() if value is not None}


def _rounded(measurement: Any) -> float | None:
    """Four digits: enough to see a change of the method, few enough for another version of numpy."""
    return None if measurement is None or measurement.value is None else float(f"{measurement.value:.4g}")
