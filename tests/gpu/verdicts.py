"""What the numbers of a GPU check have to be. Pure: from the entries of logs to verdicts; tested with scripted logs.

The limits are the project's own (issue "The analysis toolchain", section GPU).
"""

import math
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple

from tests.gpu import kineto

Entry = Mapping[str, Any]

OPERATIONS_RATIO = 0.01
FP32_POINTS = 0.03
TENSOR_POINTS = 0.05
# Judgement from one H200 that its limit of power holds (93.4 % against 83.8): a cycle counts as active also where a
# pipe is not full, and clocks that change many times a second are read twice.
TENSOR_SPARE = 0.10
IDLE_RATIO = 0.01  # judgement: what counts as an idle tensor pipe
# PyTorch's memory-efficient attention multiplies fp32 in the tensor pipes from compute capability 8.0 on, by three
# products of TF32 (``OpMultiplyAddFastF32`` in its ``gemm_kernel_utils.h``): 2.2 % of the time in GPT-2 on an H200.
ATTENTION_RATIO = 0.08
MEMORY_RATIO = 0.01
TELEMETRY_RATIO = 0.995
RESTART_RATIO = 0.001
TRACE_RATIO = 1e-4  # Kineto writes microseconds with three decimals
# Judgement: two runs of a minute differ.
BESIDE_RATIO = 0.95
FAST_RATIO = 0.97
WARM_RATIO = 0.005  # between the first and the last tenth of a run that is warm

# Student's t, two-sided 95 %, by degrees of freedom.
T95 = [
    math.inf,
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
]


class Verdict(NamedTuple):
    """``ok`` is None where there was nothing to judge by; ``told`` has the numbers, or the reason."""

    name: str
    ok: Optional[bool]
    told: str


def operations(wanted: float, counted: Optional[float], reason: str = "ncu is not on the PATH") -> Verdict:
    """Operations of a matrix product as ncu counted them against 2 m n k."""
    name = "operations of a product, counted"
    if counted is None:
        return Verdict(name, None, reason)
    off = counted / wanted - 1.0
    return Verdict(name, abs(off) <= OPERATIONS_RATIO, f"{counted:.6g} of {wanted:.6g}: {100 * off:+.3f} %")


def window(entries: Sequence[Entry], arithmetic: str) -> Optional[Tuple[float, float, float]]:
    """(from, to, operations a second) of the longest stretch in which one product was timed again and again."""
    best = None
    for entry in entries:
        data = entry["data"]
        if entry["kind"] == "calibration" and data["arithmetic"] == arithmetic:
            seconds = sum(data["duration_s"])
            if best is None or seconds > best[1] - best[0]:
                best = (entry["t"] - seconds, entry["t"], data["flops"] * len(data["duration_s"]) / seconds)
    return best


def level(entries: Sequence[Entry], metric: str, since: float, until: float) -> Optional[float]:
    """The mean of a reading whose windows lie wholly between two times, weighted by their length."""
    total = length = 0.0
    for entry in entries:
        if entry["kind"] != "reading" or entry["t"] > until or entry["t"] - entry["data"]["window_s"] < since:
            continue
        for name, subject, value in entry["data"]["values"]:
            if name == metric and subject.startswith("device:") and value is not None:
                total += value * entry["data"]["window_s"]
                length += entry["data"]["window_s"]
    return total / length if length else None


def pipe(
    entries: Sequence[Entry],
    arithmetic: str,
    metric: str,
    per_clock: Optional[float],
    points: float,
    spare: float = 0.0,
) -> Verdict:
    """A pipe's activity (GPM) against counted operations / (operations a cycle x the clock that was read).

    Args:
        points: how far they may be apart; ``spare``: how much further activity may be above what was counted.
    """
    name = f"{metric} while multiplying in {arithmetic}"
    found = window(entries, arithmetic)
    if found is None or per_clock is None:
        return Verdict(name, None, "no product was timed" if found is None else "the device is not in the facts")
    since, until, rate = found
    clock, activity = level(entries, "sm_clock_hz", since, until), level(entries, metric, since, until)
    if clock is None or activity is None:
        return Verdict(name, None, why_unread(entries, metric if activity is None else "sm_clock_hz"))
    counted = rate / (per_clock * clock)
    told = f"GPM {100 * activity:.2f} %, counted {100 * counted:.2f} % at {clock / 1e6:.0f} MHz"
    return Verdict(name, -points <= activity - counted <= points + spare, told)


def why_unread(entries: Sequence[Entry], metric: str) -> str:
    """What the driver said of a metric."""
    for entry in entries:
        if entry["kind"] == "reading":
            for known in (entry["data"].get("nvml") or {}).values():
                if known.get(metric, "ok") != "ok":
                    return f"{metric}: {known[metric]}"
    return f"{metric}: no reading in that time"


def idle_tensor_pipe(entries: Sequence[Entry], most: float = IDLE_RATIO) -> Verdict:
    """fp32 is fp32: training leaves the tensor pipes idle; ``most``: the share of the time that they may be active."""
    name = "tensor pipe of an fp32 training"
    span = timed_span(entries)
    if span is None:
        return Verdict(name, None, "nothing was timed")
    activity = level(entries, "tensor_pipe_ratio", *span)
    if activity is None:
        return Verdict(name, None, why_unread(entries, "tensor_pipe_ratio"))
    return Verdict(name, activity <= most, f"active {100 * activity:.3f} % of the time")


def timed_span(entries: Sequence[Entry]) -> Optional[Tuple[float, float]]:
    timed = [entry for entry in entries if entry["kind"] == "interval" and entry["data"]["phase"] == "timed"]
    if not timed:
        return None
    return timed[0]["t"] - timed[0]["data"]["duration_s"], timed[-1]["t"]


def timed_intervals(entries: Sequence[Entry]) -> Sequence[Mapping[str, Any]]:
    return [entry["data"] for entry in entries if entry["kind"] == "interval" and entry["data"]["phase"] == "timed"]


def steps_per_s(entries: Sequence[Entry]) -> Optional[float]:
    """Steps per second of the later three quarters of the timed intervals: by then clocks have settled."""
    timed = timed_intervals(entries)
    timed = timed[len(timed) // 4 :]
    seconds = sum(data["duration_s"] for data in timed)
    return sum(data["n"] for data in timed) / seconds if seconds else None


def warmth(entries: Sequence[Entry]) -> Verdict:
    """The first and the last tenth of what was timed after a warm-up; medians, as one interval may be disturbed."""
    name = "rate in the last tenth / in the first, after the warm-up"
    rates = [data["n"] / data["duration_s"] for data in timed_intervals(entries)]
    tenth = len(rates) // 10
    if not tenth:
        return Verdict(name, None, f"{len(rates)} intervals are not enough")
    ratio = median(rates[-tenth:]) / median(rates[:tenth])
    return Verdict(name, abs(ratio - 1.0) <= WARM_RATIO, f"{ratio:.5f}, {len(rates)} intervals")


def memory(entries: Sequence[Entry], polled: Sequence[Tuple[float, Optional[int]]]) -> Verdict:
    """Classes at the peak of the allocation profile + what lies outside the allocator = the process's memory (NVML).

    Args:
        polled: (time, bytes that all processes hold on the device), again and again, from before the job began.
    """
    name = "memory classes + outside = NVML's process memory"
    events = [entry for entry in entries if entry["kind"] == "allocations"]
    if not events or not events[-1]["data"]["last"]:
        failed = [entry["data"]["failure"]["message"] for entry in entries if entry["kind"] == "profile_failed"]
        return Verdict(name, False, "; ".join(["there is no allocation profile, which was asked for", *failed]))
    outside = events[-1]["data"].get("outside_bytes")
    begun = [
        entry["t"]
        for entry in entries
        if entry["kind"] == "process_started" and entry["data"]["process"].endswith(":memory")
    ]
    # When all was counted: what lies outside the allocator was read then.
    ended = [entry["t"] for entry in entries if entry["kind"] == "profiled" and entry["data"]["profile"] == "memory"]
    during = [amount for t, amount in polled if begun[0] <= t <= ended[-1]]
    known = [amount for amount in during if amount is not None]
    if outside is None or not known or None in during or polled[0][1]:
        why = "outside_bytes" if outside is None else "the driver does not tell the memory of each process"
        return Verdict(
            name, None, "not known: " + (why if not polled or not polled[0][1] else "there are other processes")
        )
    process, held, peak, counts = known[-1], 0, 0, False
    counted_from = events[-1]["data"].get("peak_from_step", 0)
    for event in events:
        for _, delta, step in event["data"]["items"]:
            if not counts and step >= counted_from:
                counts, peak = True, held
            held += delta
            peak = max(peak, held)
    off = (peak + outside) / process - 1.0 if process else math.inf
    told = f"{peak:,} + {outside:,} bytes against {process:,}: {100 * off:+.2f} %"
    return Verdict(name, abs(off) <= MEMORY_RATIO, told)


def kernels(entries: Sequence[Entry], ncu: Optional[str]) -> Verdict:
    """The kernel table adds up to no more than its time; where there is ncu, all that it saw was counted."""
    name = "kernel table and its counters"
    tables = [entry["data"] for entry in entries if entry["kind"] == "kernels"]
    if not tables:
        return Verdict(name, False, "there is no kernel table")
    active, elapsed = tables[-1]["active_s"], tables[-1]["elapsed_s"]
    told = f"{len(tables[-1]['rows'])} kernels, active {100 * active / elapsed:.1f} %"
    if active > elapsed:
        return Verdict(name, False, told)
    failed = [entry["data"]["failure"]["message"] for entry in entries if entry["kind"] == "profile_failed"]
    launches = [row for entry in entries if entry["kind"] == "counters" for row in entry["data"]["kernels"]]
    if launches:
        return Verdict(name, True, f"{told}; {len(launches)} launches counted in a step")
    if ncu is None:
        return Verdict(name, None, f"{told}; not counted: ncu is not on the PATH")
    return Verdict(name, False, f"{told}; not counted: {'; '.join(failed)}")


def trace(precision: str, own: Mapping[str, Any], path: Path) -> Verdict:
    """tbd's figures of a recording against those of Kineto's own file of it, by other arithmetic."""
    name = f"kernels of a trace, {precision}"
    events = kineto.events(path)
    span = kineto.whole(events)
    if span is None:
        return Verdict(name, False, f"{path.name} has no mark of tbd's around the steps")
    wanted = kineto.work(events, span)
    active_s = own["active_s"]
    if not wanted.count or active_s is None:
        told = f"{path.name}: the profiler has recorded no kernel (is CUPTI there, and free?)"
        return Verdict(name, None if active_s is None and not wanted.count else False, told)
    off = active_s / wanted.union_s - 1.0
    told = f"{own['kernels']} launches, active {1e3 * active_s:.3f} ms; Kineto's file {wanted.count}, "
    told += f"{1e3 * wanted.union_s:.3f} ms: {100 * off:+.4f} %"
    return Verdict(name, own["kernels"] == wanted.count and abs(off) <= TRACE_RATIO, told)


def beside(name: str, entries: Sequence[Entry], batch: int, public: Mapping[str, Any], least: float) -> Verdict:
    """A throughput beside that of a public implementation on the same device, a moment later.

    Args:
        public: what ``tests.gpu.public`` printed; without ``samples_per_s``, ``of`` says why there is none.
    """
    steps = steps_per_s(entries)
    if steps is None:
        return Verdict(name, False, "nothing was timed")
    asked = [
        entry["data"]["job"]["plan"]["per_device_batch_size"] for entry in entries if entry["kind"] == "log_opened"
    ]
    own = steps * batch
    if asked and asked[0] != batch:
        return Verdict(name, False, f"a batch of {batch} does not fit: {asked[0]} does")
    if "samples_per_s" not in public:
        return Verdict(name, None, f"{own:.1f} samples/s; there is nothing to hold it against: {public['of']}")
    built = [entry["data"]["parameters"] for entry in entries if entry["kind"] == "built"]
    told = f"{own:.1f} samples/s, {public['of']} {public['samples_per_s']:.1f}: {own / public['samples_per_s']:.3f} x"
    if built != [public["parameters"]]:
        return Verdict(name, False, f"{told}; other networks: {built} and {public['parameters']} parameters")
    return Verdict(name, own >= least * public["samples_per_s"], told)


def pairs(name: str, found: Sequence[Tuple[float, float]]) -> Verdict:
    """The ratio of throughputs of pairs of runs that followed each other."""
    if len(found) < 2:
        return Verdict(name, None, f"{len(found)} pairs are not enough")
    ratios = [with_it / without for with_it, without in found]
    low = mean(ratios) - T95[min(len(ratios) - 1, len(T95) - 1)] * stdev(ratios) / math.sqrt(len(ratios))
    return Verdict(name, low >= TELEMETRY_RATIO, f"{mean(ratios):.5f}, 95 % from {low:.5f} on, {len(ratios)} pairs")


def restarts(rates: Sequence[float]) -> Verdict:
    """Runs of the same plan in fresh processes: the standard deviation of their rates over the mean."""
    name = "restarts vary"
    if len(rates) < 10:
        return Verdict(name, None, f"{len(rates)} of 10 restarts")
    variation = stdev(rates) / mean(rates)
    return Verdict(
        name, variation <= RESTART_RATIO, f"{100 * variation:.4f} % ({len(rates)} runs, {mean(rates):.6g}/s)"
    )
