"""A waterfall as a person reads it: from one device to what was measured, part by part."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.reports.drawing import table
from orchestrator.reports.numbers import NOTHING, percent, plain, with_interval

Json = Mapping[str, Any]

# What a part is, where its name does not say it and no note does.
_MEANS = {"cores taken": "the exchange computes too"}
_WHOLE = ("one device", "computing", "measured")  # told without a sign


def title(found: Json) -> str:
    """What was run, how fast it was, and how that scales."""
    cell = found["cell"]
    fabric = f" over {cell['fabric']}" if cell["fabric"] else ""
    told = f"{cell['model']}, {cell['framework']} {cell['strategy']}, {cell['topology']}{fabric}"
    if found["throughput"]:
        told += f": {with_interval(found['throughput'])} {found['throughput']['unit']}"
    return told + (f", efficiency {with_interval(found['efficiency'], 2)}" if found["efficiency"] else "")


def text(found: Json) -> str:
    """The waterfall in lines."""
    lines = [title(found), *_aligned(rows(found)), bottleneck(found)]
    return "\n".join([*lines, *(f"  {note}" for note in notes(found))])


def markdown(found: Json) -> str:
    """The waterfall as a table, with its notes."""
    lines = [[name, seconds, " ".join(filter(None, (interval, note)))] for name, seconds, interval, note in rows(found)]
    told = [f"* {note}" for note in (bottleneck(found), *notes(found))]
    return f"{title(found)}\n\n{table.markdown(['part', 'time', ''], lines)}\n\n" + "\n".join(told)


def difference_text(found: Json) -> str:
    """By which parts the other cell differs, in lines."""
    mine, theirs = found["cell"], found["other"]["cell"]
    names = [f"{cell['framework']} {cell['strategy']}" for cell in (mine, theirs)]
    scale = _Scale(found["iteration_s"])
    rows = [["", *names, "difference", ""]]
    for part in found["other"]["parts"]:
        values = [scale.told(part[name]) for name in ("seconds", "other_seconds")]
        difference = scale.signed(part["difference_s"])
        rows.append([part["name"], *values, difference, scale.interval(part)])
    return "\n".join(_aligned(rows))


def notes(found: Json) -> Iterator[str]:
    """Who is slow, where all this comes from, and what would tell more."""
    if straggler := found["straggler"]:
        scale, name = _Scale(found["iteration_s"]), _rank(straggler)
        cost = f"{scale.signed(straggler['cost_s'])} {scale.interval(straggler)}".rstrip()
        if straggler["named"]:
            yield f"straggler: {name}, {cost} above the mean of the ranks"
        else:
            yield f"no straggler: {found['straggler_reason']}; {name} computes longest, {cost} above the mean"
    elif found["straggler_reason"]:
        yield f"straggler not told: {found['straggler_reason']}"
    alone = found["one_device"]
    if alone and alone["experiment_id"] != found["cell"]["experiment_id"]:
        yield f"one device is of another experiment, {alone['experiment_id']}: what moved between them is in all parts"
    pairs = " in pairs" if found["paired"] else ""
    yield f"means over {found['blocks']} block{'s' * (found['blocks'] > 1)}{pairs}, from {found['source']}"
    for one in found["missing"]:
        yield f"missing: {one['what']}" + (f": {one['command']}" if one["command"] else "")


def bottleneck(found: Json) -> str:
    """What holds it up, with what the link would have to carry, where that is predicted."""
    if not found["reach"]:
        return f"bottleneck: {found['bottleneck']}"
    wanted, rate = percent(found["reach"]["efficiency"], 2), found["reach"]["bits_per_s"]
    told = "no bandwidth would reach" if rate is None else f"{plain(rate / 1e9, 3)} Gbit/s would reach"
    return f"bottleneck: {found['bottleneck']}; {told} an efficiency of {wanted}, as predicted"


def _rank(straggler: Json) -> str:
    device = f", {straggler['node']} {straggler['device']}" if straggler["device"] else ""
    return f"rank {straggler['rank']}{device}"


def rows(found: Json) -> Iterator[tuple[str, str, str, str]]:
    """(name, time, interval, note) of each part, then of the iteration."""
    scale = _Scale(found["iteration_s"])
    slow = found["straggler"]
    for part in found["parts"]:
        note = part["note"] or _MEANS.get(part["name"], "")
        if part["name"] == "straggler" and slow and slow["named"]:
            note = _rank(slow)
        seconds = part["seconds"]
        value = scale.told(seconds) if part["name"] in _WHOLE else scale.signed(seconds)
        yield part["name"], value, scale.interval(part), note
    yield "measured", scale.told(found["iteration_s"]), scale.interval(found), ""


class _Scale:
    """One unit and number of places for all parts of an iteration: three digits of the whole, or whole units."""

    def __init__(self, whole_s: float) -> None:
        self._unit, self._factor = ("s", 1.0) if whole_s >= 10 else ("ms", 1e3)
        magnitude = math.floor(math.log10(whole_s * self._factor)) if whole_s > 0 else 0
        self._places = max(0, 2 - magnitude)

    def _plain(self, seconds: float, sign: str = "") -> str:
        rounded = round(seconds * self._factor, self._places) + 0.0  # no -0
        return f"{rounded:{sign}.{self._places}f}"

    def told(self, seconds: float | None) -> str:
        return NOTHING if seconds is None else f"{self._plain(seconds)} {self._unit}"

    def signed(self, seconds: float | None) -> str:
        return NOTHING if seconds is None else f"{self._plain(seconds, '+')} {self._unit}"

    def interval(self, found: Json) -> str:
        if found["ci_low"] is None or found["ci_high"] is None:
            return ""
        return f"({self._plain(found['ci_low'])} to {self._plain(found['ci_high'])})"


def _aligned(rows: Iterator[tuple[str, ...]] | Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns: the first and the last two to the left, what is between to the right."""
    found = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in found) for column in range(len(found[0]))]
    lines = []
    for row in found:
        cells = [
            cell.ljust(width) if column == 0 or column >= len(row) - 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
