"""How noisy a machine is, for a person: what ``tbd noise`` prints."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from orchestrator.reports.drawing import table
from orchestrator.reports.numbers import NOTHING, duration, percent

Json = Mapping[str, Any]


def text(found: Json, width: int | None) -> str:
    """The lines of a measurement (``orchestrator.cli.commands.measure.noise`` makes it), and what follows from it."""
    facts = [
        ["between processes", _between(found)],
        ["within a process", _within(found)],
        ["levels", _levels(found)],
        ["meanwhile", _meanwhile(found)],
    ]
    parts = [
        f"{found['processes']} fresh processes on {found['device']}, {found['intervals']} intervals of "
        f"{duration(found['interval_time_s'])} each: {found['kernel']}",
        table.text(["noise", "standard deviation, in % of the mean time"], facts, width),
        table.text(["runs it takes", *_targets(found)], _needed(found["runs_needed"]), width),
        "In brackets: where the deviation between processes is at the upper end of its 95 % interval.",
    ]
    return "\n".join([*parts, *_advice(found)])


def _between(found: Json) -> str:
    ends = f"{percent(found['between_low'])} to {percent(found['between_high'])}"
    own = found["process_ratio"]
    rest = "" if own is None else f"; {percent(own)} were left if runs had no end"
    return f"{percent(found['between_ratio'])} (95 % interval {ends}){rest}"


def _within(found: Json) -> str:
    spikes = found["spikes_ratio"]
    return (
        f"{percent(found['within_ratio'])}; autocorrelation {found['autocorrelation']:.2f}, so that "
        f"{found['intervals']} intervals are worth {found['worth']:.0f}"
        + (f"; {percent(spikes)} of them are spikes" if spikes else "")
    )


def _levels(found: Json) -> str:
    shifts, told = found["shifts"], []
    if shifts:
        size = percent(median(abs(shift["ratio"] - 1) for shift in shifts))
        of = len({shift["process"] for shift in shifts})
        told.append(
            f"{len(shifts)} changes inside {of} of {found['processes']} processes, by {size} (median), one in "
            f"{duration(found['timed_s'] / len(shifts))} of timed work"
        )
    if found["alike"]:
        told.append(
            f"processes that follow each other are alike (correlation {found['neighbours']:.2f}): levels outlast them"
        )
    return "; ".join(told) or "none seen"


def _meanwhile(found: Json) -> str:
    stolen = found["stolen_ratio"]
    told = f"other processes had {percent(found['foreign_ratio'])} of the cores' time"
    return told + ("" if stolen is None else f", the hypervisor took {percent(stolen)}")


def _targets(found: Json) -> list[str]:
    return [percent(one["target_ratio"], 2) for one in found["runs_needed"]]


def _needed(needed: Sequence[Json]) -> list[list[str]]:
    rows = (
        ("half-width of a cell's 95 % interval", "half_width_runs"),
        ("a difference of two cells, found with 80 %: of each", "difference_runs"),
    )
    return [[name, *(_runs(one[field], one[f"{field}_at_most"]) for one in needed)] for name, field in rows]


def _runs(likely: int | None, at_most: int | None) -> str:
    return "more than 100,000" if likely is None else f"{likely} ({NOTHING if at_most is None else at_most})"


def _advice(found: Json) -> list[str]:
    lines = ["A model has a noise of its own: `tbd run MODEL --repeats 10` measures it."]
    if found["alike"]:
        lines.append("Runs that follow each other share a level here: an interval speaks of the time it was taken in.")
    if found["foreign_ratio"] > 0.1:
        lines.append("Something else was running: stop it and measure again.")
    return [*lines, "`tbd doctor` says what would make this machine calmer or faster."]
