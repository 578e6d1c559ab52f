"""Prints what the profiling phases of a run have found, for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.reports.drawing import table
from orchestrator.reports.numbers import NOTHING, duration, memory, percent

Json = Mapping[str, Any]

MOST_ROWS = 10  # of a table within something longer; a judgement
_LONGEST_NAME = 60  # judgements: C++ names go on for lines, and less than the other says nothing
_SHORTEST_NAME = 24


def print_profile(name: str, answer: Json, most: int | None) -> None:
    """Print REST's answer for a profile; of its rows the ``most`` important, None for all."""
    if answer["reason"]:
        print(f"no profile of {name}: {answer['reason']}")
        return
    printers = {"memory": _print_memory, "kernels": _print_kernels, "layers": _print_layers}
    printers[name](answer, most)


def _print_memory(answer: Json, most: int | None) -> None:
    print("memory by class" + (f" (rank {answer['rank']}: the greatest peak)" if len(answer["ranks"]) > 1 else ""))
    peak = answer["peak_bytes"]
    rows = [_share(name, share, peak) for name, share in answer["classes"].items()]
    index = next(number for number, row in enumerate(rows) if row[0] == "dynamic") + 1
    rows[index:index] = [_share("  " + name, share, peak) for name, share in answer["parts"].items()]
    rows.append(["residual", "", _signed(answer["residual_bytes"]), percent(answer["residual_ratio"])])
    rows.append(["peak, measured", "", memory(peak), percent(1.0)])
    if answer["outside_bytes"] is not None:
        rows.append(["outside the allocator", "", memory(answer["outside_bytes"]), ""])
    _table(["class", "own maximum", "at the peak", "share"], rows)
    output.print_dim(f"shares: {answer['method']}, {answer['steps']} steps in fresh processes")
    output.print_dim(f"peak: {answer['peak_method']}")
    if len(answer["ranks"]) > 1:
        peaks = ", ".join(f"{one['rank']}: {memory(one['peak_bytes'])}" for one in answer["ranks"])
        output.print_dim(f"peaks by rank: {peaks}")


def _signed(amount_bytes: int) -> str:
    return ("-" if amount_bytes < 0 else "") + memory(abs(amount_bytes))


def _share(name: str, share: Json, peak: float) -> list[str]:
    at_peak = share["at_peak_bytes"]
    return [name.replace("_", " "), memory(share["max_bytes"]), memory(at_peak), percent(at_peak / peak)]


def _print_kernels(answer: Json, most: int | None) -> None:
    ranks = f", {len(answer['ranks'])} ranks together" if len(answer["ranks"]) > 1 else ""
    print(f"kernels of {answer['steps']} steps{ranks}")
    steps = answer["steps"] * len(answer["ranks"])
    known = any(row["fp32_utilization_ratio"] is not None for row in answer["items"])
    rows = [_kernel_row(row, steps, known) for row in answer["items"][:most]]
    _table(["kernel or operator", "kind", "calls", "a step", "share", *(["FP32"] if known else [])], rows)
    _say_more(answer, most, "tbd show RUN --kernels")
    output.print_dim("by kind: " + ", ".join(f"{kind} {percent(share)}" for kind, share in answer["kinds"].items()))
    active = percent(answer["active_s"] / answer["elapsed_s"]) if answer["elapsed_s"] else NOTHING
    output.print_dim(f"{answer['method']}: active {active} of {duration(answer['elapsed_s'])}")
    reasons = {row["reason"] for row in answer["items"] if row["reason"]}
    if reasons:
        output.print_dim("no FP32 utilisation: " + "; ".join(sorted(reasons)))
    if answer["longest_below_average"]:
        average = percent(answer["average_fp32_utilization_ratio"])
        print(f"\nthe longest below the average FP32 utilisation of {average}")
        rows = [_kernel_row(row, steps, True) for row in answer["longest_below_average"]]
        _table(["kernel", "kind", "calls", "a step", "share", "FP32"], rows)


def _kernel_row(row: Json, steps: int, with_utilization: bool) -> list[str]:
    cells = [row["name"], row["kind"], str(row["calls"]), duration(row["total_s"] / steps), percent(row["share_ratio"])]
    return [*cells, percent(row["fp32_utilization_ratio"])] if with_utilization else cells


def _print_layers(answer: Json, most: int | None) -> None:
    many = f" of rank {answer['rank']}" if len(answer["ranks"]) > 1 else ""
    print(f"a step{many}, mean of {answer['steps']}")
    parts = [
        [name.removesuffix("_s").replace("_", " "), duration(value), answer["breakdown_reasons"].get(name, "")]
        for name, value in [*answer["breakdown"].items(), ("exposed_exchange_s", answer["exposed_exchange_s"])]
    ]
    _table(["part", "time", "why there is none"], parts)
    _print_rows(answer, most)
    if answer["exchanges"]:
        print()
        rows = [
            [one["name"], memory(one["bytes"]), duration(one["start_s"]), duration(one["end_s"])]
            for one in answer["exchanges"][:most]
        ]
        _table(["exchanged", "bytes", "from", "to"], rows)
        output.print_dim("from the start of the backward pass, of one step")
    output.print_dim(answer["method"] + (", layers kept from overlapping" if answer["serialised"] else ""))


def _print_rows(answer: Json, most: int | None) -> None:
    """The layers in the order of the forward pass; where only some are wanted, the slowest."""
    found = sorted(answer["items"], key=_layer_s, reverse=True) if most else answer["items"]
    if not found:
        return
    print()
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
    _table(["layer", "kind", "weights", "forward", "backward"], rows)
    _say_more(answer, most, "tbd show RUN --layers")


def _layer_s(row: Json) -> float:
    return float((row["forward_s"] or 0.0) + (row["backward_s"] or 0.0))


def print_kernel_changes(answer: Json, most: int | None) -> None:
    """Print the kernels of two runs that differ, the largest difference first."""
    if answer["reason"]:
        print(f"the kernels cannot be compared: {answer['reason']}")
        return
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
    _table(["kernel or operator", "kind", "change", "A, a step", "B, a step", "difference"], rows)
    _say_more(answer, most, "tbd compare A B --kernels")


def _milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{1e3 * seconds:.3f} ms"


def _short(name: str, longest: int = _LONGEST_NAME) -> str:
    name = name.replace("\n", " ")
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _say_more(answer: Json, most: int | None, how: str) -> None:
    left = len(answer["items"]) - (most or len(answer["items"]))
    if left > 0:
        output.print_dim(f"{left} more: {how}")


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first column is a name, cut where the screen is too narrow for it."""
    others = zip(headers[1:], *(row[1:] for row in rows), strict=True)
    width, longest = output.width(), _LONGEST_NAME
    if width is not None:
        room = width - sum(2 + max(len(cell) for cell in column) for column in others)
        longest = min(longest, max(_SHORTEST_NAME, room))
    print(table.text(headers, [[_short(row[0], longest), *row[1:]] for row in rows], width))
