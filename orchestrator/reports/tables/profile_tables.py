"""What the profiling phases of a run have found, as tables: ``common`` of each is its title."""

from collections.abc import Mapping
from typing import Any

from orchestrator.reports.numbers import NOTHING, duration, memory, percent
from orchestrator.reports.tables.results_table import Table

Json = Mapping[str, Any]

MOST_ROWS = 10  # of a table within something longer; a judgement


def profile_tables(name: str, answer: Json, most: int | None) -> list[Table]:
    """The tables of REST's answer for the profile ``name``; of its rows the ``most`` important, None for all. Empty
    where the run has no such profile."""
    if answer["reason"]:
        return []
    return {"memory": _memory, "kernels": _kernels, "layers": _layers}[name](answer, most)


def _memory(answer: Json, _most: int | None) -> list[Table]:
    title = "memory by class" + (f" (rank {answer['rank']}: the greatest peak)" if len(answer["ranks"]) > 1 else "")
    peak = answer["peak_bytes"]
    rows = [_share(name, share, peak) for name, share in answer["classes"].items()]
    index = next(number for number, row in enumerate(rows) if row[0] == "dynamic") + 1
    rows[index:index] = [_share("  " + name, share, peak) for name, share in answer["parts"].items()]
    rows.append(["residual", "", _signed(answer["residual_bytes"]), percent(answer["residual_ratio"])])
    rows.append(["peak, measured", "", memory(peak), percent(1.0)])
    if answer["outside_bytes"] is not None:
        rows.append(["outside the allocator", "", memory(answer["outside_bytes"]), ""])
    notes = [f"shares: {answer['method']}, {answer['steps']} steps in fresh processes"]
    notes.append(f"peak: {answer['peak_method']}")
    if len(answer["ranks"]) > 1:
        peaks = ", ".join(f"{one['rank']}: {memory(one['peak_bytes'])}" for one in answer["ranks"])
        notes.append(f"peaks by rank: {peaks}")
    return [Table(title, ["class", "own maximum", "at the peak", "share"], rows, notes)]


def _signed(amount_bytes: int) -> str:
    return ("-" if amount_bytes < 0 else "") + memory(abs(amount_bytes))


def _share(name: str, share: Json, peak: float) -> list[str]:
    at_peak = share["at_peak_bytes"]
    return [name.replace("_", " "), memory(share["max_bytes"]), memory(at_peak), percent(at_peak / peak)]


def _kernels(answer: Json, most: int | None) -> list[Table]:
    ranks = f", {len(answer['ranks'])} ranks together" if len(answer["ranks"]) > 1 else ""
    steps = answer["steps"] * len(answer["ranks"])
    known = any(row["fp32_utilization_ratio"] is not None for row in answer["items"])
    rows = [_kernel_row(row, steps, known) for row in answer["items"][:most]]
    notes = _more(answer, most, "tbd show RUN --kernels")
    notes.append("by kind: " + ", ".join(f"{kind} {percent(share)}" for kind, share in answer["kinds"].items()))
    active = percent(answer["active_s"] / answer["elapsed_s"]) if answer["elapsed_s"] else NOTHING
    notes.append(f"{answer['method']}: active {active} of {duration(answer['elapsed_s'])}")
    reasons = {row["reason"] for row in answer["items"] if row["reason"]}
    if reasons:
        notes.append("no FP32 utilisation: " + "; ".join(sorted(reasons)))
    heads = ["kernel or operator", "kind", "calls", "a step", "share", *(["FP32"] if known else [])]
    tables = [Table(f"kernels of {answer['steps']} steps{ranks}", heads, rows, notes)]
    if answer["longest_below_average"]:
        average = percent(answer["average_fp32_utilization_ratio"])
        rows = [_kernel_row(row, steps, True) for row in answer["longest_below_average"]]
        title = f"the longest below the average FP32 utilisation of {average}"
        tables.append(Table(title, ["kernel", "kind", "calls", "a step", "share", "FP32"], rows, []))
    return tables


def _kernel_row(row: Json, steps: int, with_utilization: bool) -> list[str]:
    cells = [row["name"], row["kind"], str(row["calls"]), duration(row["total_s"] / steps), percent(row["share_ratio"])]
    return [*cells, percent(row["fp32_utilization_ratio"])] if with_utilization else cells


def _layers(answer: Json, most: int | None) -> list[Table]:
    many = f" of rank {answer['rank']}" if len(answer["ranks"]) > 1 else ""
    parts = [
        [name.removesuffix("_s").replace("_", " "), duration(value), answer["breakdown_reasons"].get(name, "")]
        for name, value in [*answer["breakdown"].items(), ("exposed_exchange_s", answer["exposed_exchange_s"])]
    ]
    title = f"a step{many}, mean of {answer['steps']}"
    tables = [Table(title, ["part", "time", "why there is none"], parts, [])]
    # The layers in the order of the forward pass; where only some are wanted, the slowest.
    if found := sorted(answer["items"], key=_layer_s, reverse=True) if most else answer["items"]:
        rows = [
            [
                row["name"],
                row["kind"],
                memory(row["parameters_bytes"]),
                duration(row["forward_s"]),
                duration(row["backward_s"]),
            ]
            for row in found[:most]
        ]
        heads = ["layer", "kind", "weights", "forward", "backward"]
        tables.append(Table("", heads, rows, _more(answer, most, "tbd show RUN --layers")))
    if answer["exchanges"]:
        rows = [
            [one["name"], memory(one["bytes"]), duration(one["start_s"]), duration(one["end_s"])]
            for one in answer["exchanges"][:most]
        ]
        about = "from the start of the backward pass, of one step"
        tables.append(Table("", ["exchanged", "bytes", "from", "to"], rows, [about]))
    tables[-1].notes.append(answer["method"] + (", layers kept from overlapping" if answer["serialised"] else ""))
    return tables


def _layer_s(row: Json) -> float:
    return float((row["forward_s"] or 0.0) + (row["backward_s"] or 0.0))


def kernel_changes_table(answer: Json, most: int | None) -> Table:
    """The kernels of two runs that differ, the largest difference first."""
    rows = [
        [
            row["name"],
            row["kind"],
            row["change"],
            _milliseconds(row["baseline_s"]),
            _milliseconds(row["candidate_s"]),
            f"{1e3 * row['difference_s']:+.3f} ms",
        ]
        for row in answer["items"][:most]
    ]
    heads = ["kernel or operator", "kind", "change", "A, a step", "B, a step", "difference"]
    return Table("", heads, rows, _more(answer, most, "tbd compare A B --kernels"))


def _milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{1e3 * seconds:.3f} ms"


def _more(answer: Json, most: int | None, how: str) -> list[str]:
    left = len(answer["items"]) - (most or len(answer["items"]))
    return [f"{left} more: {how}"] if left > 0 else []
