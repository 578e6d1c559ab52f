"""What the regression gate has tried, and what it would have tried of a history, as tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.words.untrusted import visible
from orchestrator.reports.numbers import duration, short_digests, short_time
from orchestrator.reports.tables.results_table import Table, axis_text

Json = Mapping[str, Any]
ALERT_HEADERS = ["alert", "state", "since (UTC)", "cell", "place", "effect (95 % CI)", "coincides with"]
SHOWN = 5  # operators of an alert: a judgement
HEADERS = ["night (UTC)", "series", "place", "since (UTC)", "kind", "difference", "coincides with"]


def replay_table(items: Sequence[Json], names: Mapping[str, str], told: str) -> Table:
    """One line a candidate; of those that may have one cause only the first has the night.

    Args:
        items: as ``tbd alerts replay --json`` prints them.
        names: what a series is called, where that is not its key.
        told: what was looked at, in words.
    """
    rows: list[list[str]] = []
    causes: dict[int, str] = {}
    for item in items:
        rows.append(
            [
                "" if item["cause"] in causes else short_time(item["called_at"]),
                names.get(item["series"], item["series"]),
                item["place"],
                short_time(item["at"]),
                item["kind"],
                f"{item['difference']:+.1%}",
                f"{item['before']} → {item['after']}" if item["before"] != item["after"] else "",
            ]
        )
        causes.setdefault(item["cause"], item["kind"])
    kinds = list(causes.values())
    note = f"{told}: {kinds.count('step')} would have been tried side by side; drifts, which are not: "
    return Table("", HEADERS, rows, [f"{note}{kinds.count('drift')}."])


def alerts_table(items: Sequence[Json]) -> Table:
    """One line a candidate, of an alert the first one with what it tells; what was tried stands below.

    Args:
        items: as REST answers them.
    """
    rows: list[list[str]] = []
    for item in items:
        changes = ", ".join(change_text(one["field"], one["before"], one["after"]) for one in item["changes"])
        for number, one in enumerate(item["candidates"]):
            told = [item["id"], item["state"]] if number == 0 else ["", ""]
            of = [_effect(item), visible(changes)] if number == 0 else ["", ""]
            rows.append([*told, short_time(one["at"]), visible(one["label"]), visible(one["place"]), *of])
    notes = [f"{item['id']}: {visible(item['tried'] + _more(item))}" for item in items]
    return Table("", ALERT_HEADERS, rows, notes or ["no alerts"])


def equal_arms_text(found: Json) -> str:
    """How often the gate is wrong, as pairs of equal arms told it; REST's answer."""
    if not found["told"]:
        return "no pair of equal arms has told yet how often the gate cries wolf"
    share, low, high = (f"{100 * one:.3g} %" for one in (found["slower"] / found["told"], found["low"], found["high"]))
    told = f"equal arms, one pair a night: {found['slower']} of {found['told']} called slower"
    return f"{told}: {share} ({low} to {high}), where {100 * found['level']:g} % is held"


def _more(item: Json) -> str:
    more = [one["text"] for one in (item["elsewhere"], item["undone"]) if one]
    more += [operators_text(item["operators"])] if item["operators"] else []
    return "".join(f"; {one}" for one in more)


def operators_text(found: Json) -> str:
    """Which operators take longer, in words: kernels take +1.9 ms (…) a step: conv +1.6 ms (…), not told +0.3 ms."""
    told = [f"{one['name']} {_more_s(one)}" for one in found["told"][:SHOWN]]
    left = len(found["told"]) - SHOWN
    told += [f"{left} more that are told"] if left > 0 else []
    told.append(f"not told {_signed(found['rest_s'])}")
    return f"kernels take {_more_s(found['whole'])} a step: {', '.join(told)}"


def _more_s(one: Json) -> str:
    return f"{_signed(one['difference_s'])} ({_signed(one['low_s'])} to {_signed(one['high_s'])})"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def blind_table(items: Sequence[Json], drop: float) -> Table:
    """One line a cell and place of which a ``drop`` (a ratio) is not seen, that with the largest first.

    Args:
        items: sights as REST answers them, each with the name of its schedule and the axes of its cell.
    """
    from orchestrator.analysis.gate.sight import runs_for  # scipy

    rows = []
    for one in sorted(items, key=lambda item: -item["smallest_drop_ratio"]):
        seen, run, runs, axes = one["smallest_drop_ratio"], one["run_deviation"], one["runs"], one["axes"]
        wanted = None if run is None else runs_for(drop, seen, one["night_deviation"], run, runs)
        cost = "nobody knows: a run a night" if run is None else "no number of runs: nights differ by themselves"
        if wanted is not None:
            cost = f"{math.ceil(wanted)} runs a night: {wanted / runs:.1f} x the device time"
        cell = f"{axes['model']} {axes['framework']} {axes['per_device_batch_size']}"
        where = [one["schedule"], visible(cell), visible(one["place"])]
        rows.append([*where, f"{seen:.1%}", str(one["n_nights"]), f"{runs:.0f}", cost])
    heads = ["schedule", "cell", "place", "seen from", "nights", "runs a night", f"to see {drop:.1%}"]
    note = f"a drop of {drop:.1%} is called within 3 nights in 9 of 10 cases wherever 8 nights are there"
    return Table("", heads, rows, [] if rows else [note])


def change_text(field: str, before: Any, after: Any) -> str:
    """What of a fingerprint changed, in words."""
    return short_digests(f"{field} {axis_text(before)} → {axis_text(after)}")


def _effect(item: Json) -> str:
    effect = item["effect"]
    if effect is None:
        return ""
    return f"{effect['value']:+.1%} ({effect['ci_low']:+.1%} to {effect['ci_high']:+.1%})"
