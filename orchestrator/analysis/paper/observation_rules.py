"""When an observation of the TBD paper is called true: a rule over the results for each, and its thresholds.

``observations`` has the claims that they belong to. Each rule takes the valid results of single devices.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, pairwise
from statistics import fmean, median

RECURRENT = ("lstm", "gru", "rnn", "recurrent")

# Thresholds. All ratios.
LEAST_BATCHES = 3  # batch sizes of a series that can show a trend
NOISE = 0.02  # two rates that differ by less are called equal
GROWS = 0.05  # a rate or utilisation that grows by less over a whole series does not grow
SATURATED = 0.10  # a doubling of the batch that gains less has saturated the device
FILLED = 0.50  # a largest batch that takes less of the device's memory says nothing about its limit
BUSY = 0.95  # a device that is busier than this already has nothing to gain
LOWER = 0.75  # recurrent models' mean utilisation over the others' that we call low
LONG_KERNEL = 0.05  # share of kernel time that makes a kernel long
LOW_CPU = 0.25  # utilisation of the host's cores that we call low
MOST = 0.75  # share of the cases that "most" asks for
DOMINANT = 0.50  # share of the memory at the peak
MEMORY_GROWS = 0.25


class Answer(StrEnum):
    """What the results say of an observation."""

    HOLDS = "holds"
    DOES_NOT = "does_not"
    NOT_ENOUGH = "not_enough_data"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class CellResult:
    """One result of one device.

    ``series`` names everything but the batch size, ``workload`` everything but batch size, model and framework.
    ``memory``: bytes by class at the peak; ``kernels``: (name, share of kernel time, FP32 utilisation or None).
    """

    series: str
    workload: str
    model: str
    dominant_layer: str
    framework: str
    device_kind: str
    device_name: str
    batch: int
    throughput: float
    measured: Mapping[str, float] = field(default_factory=dict)
    device_memory_bytes: float | None = None
    memory: Mapping[str, float] = field(default_factory=dict)
    kernels: Sequence[tuple[str, float, float | None]] = ()

    @property
    def gpu(self) -> bool:
        return self.device_kind == "cuda"

    @property
    def recurrent(self) -> bool:
        return any(word in self.dominant_layer.lower() for word in RECURRENT)

    @property
    def name(self) -> str:
        return f"{self.model} {self.framework} {self.device_name}"


@dataclass(frozen=True)
class Finding:
    """``told``: why this answer, in a sentence; ``numbers``: the case by case evidence."""

    answer: Answer
    told: str
    numbers: tuple[str, ...] = ()


Series = list[CellResult]  # by rising batch size
Rule = Callable[[Sequence[CellResult]], Finding]


def on_gpus(judge: Rule) -> Rule:
    """The same test, for which results of CPU devices are no evidence."""

    def judged(cells: Sequence[CellResult]) -> Finding:
        if not cells:
            return Finding(Answer.NOT_APPLICABLE, "it speaks of GPUs, and all results are of CPU devices")
        return judge(cells)

    return judged


def _series(cells: Iterable[CellResult], least: int = LEAST_BATCHES) -> list[Series]:
    found: dict[str, dict[int, CellResult]] = {}
    for cell in cells:
        found.setdefault(cell.series, {}).setdefault(cell.batch, cell)
    ordered = [[own[batch] for batch in sorted(own)] for own in found.values()]
    return [own for own in ordered if len(own) >= least]


def _too_few(what: str) -> Finding:
    return Finding(Answer.NOT_ENOUGH, what)


def _no_series() -> Finding:
    return _too_few(f"no series has {LEAST_BATCHES} batch sizes")


def _all(cases: Sequence[tuple[bool, str]], of: str, most: float = 1.0) -> Finding:
    """True where at least ``most`` of the cases are."""
    good = sum(ok for ok, _ in cases)
    answer = Answer.HOLDS if good >= most * len(cases) else Answer.DOES_NOT
    return Finding(answer, f"in {good} of {len(cases)} {of}", tuple(text for _, text in cases))


def _rates(own: Series) -> str:
    return ", ".join(f"{cell.batch}: {cell.throughput:.4g}/s" for cell in own)


def _levels(own: Series, metric: str) -> str:
    return ", ".join(f"{cell.batch}: {100 * cell.measured[metric]:.1f} %" for cell in own)


def grows_with_batch(cells: Sequence[CellResult]) -> Finding:
    cases = []
    for own in _series(cells):
        falls = any(b.throughput < (1 - NOISE) * a.throughput for a, b in pairwise(own))
        grows = own[-1].throughput >= (1 + GROWS) * own[0].throughput
        cases.append((grows and not falls, f"{own[0].name}: {_rates(own)}"))
    return _all(cases, "series") if cases else _no_series()


def _gain_per_doubling(a: CellResult, b: CellResult) -> float:
    """How much the rate grows where the batch doubles, by the two of them."""
    ratio = max(b.throughput / a.throughput, 1e-9)
    return float(ratio ** (1.0 / math.log2(b.batch / a.batch))) - 1.0


def recurrent_not_saturated(cells: Sequence[CellResult]) -> Finding:
    cases = []
    for own in _series(cell for cell in cells if cell.recurrent):
        last, filled = own[-1], _filled(own[-1])
        if filled is None or filled < FILLED:
            continue
        gain = _gain_per_doubling(own[-2], last)
        text = f"{last.name}: {100 * gain:+.1f} % per doubling up to batch {last.batch}, {100 * filled:.0f} % of memory"
        cases.append((gain >= SATURATED, text))
    if not cases:
        return _too_few(
            f"no recurrent model has {LEAST_BATCHES} batch sizes, the largest of which fills half the memory"
        )
    return _all(cases, "series of recurrent models")


def _filled(cell: CellResult) -> float | None:
    peak = cell.measured.get("peak_memory_bytes")
    return peak / cell.device_memory_bytes if peak and cell.device_memory_bytes else None


def no_framework_wins_everywhere(cells: Sequence[CellResult]) -> Finding:
    """For every model the fastest framework on one device, each at its best batch size."""
    best: dict[str, dict[str, dict[str, CellResult]]] = {}
    for cell in cells:
        own = best.setdefault(cell.workload, {}).setdefault(cell.model, {})
        if cell.framework not in own or own[cell.framework].throughput < cell.throughput:
            own[cell.framework] = cell
    cases = []
    for models in best.values():
        ranked = [sorted(own.values(), key=lambda cell: -cell.throughput) for own in models.values() if len(own) > 1]
        clear = [cells for cells in ranked if cells[0].throughput > (1 + NOISE) * cells[1].throughput]
        if len(clear) >= 2:
            winners = {cells[0].framework for cells in clear}
            cases.append((len(winners) > 1, "; ".join(_ranking(cells) for cells in clear)))
    if not cases:
        return _too_few("no two models with a clear winner of two frameworks or more on the same device")
    return _all(cases, "devices and sizes of input")


def _ranking(cells: Sequence[CellResult]) -> str:
    rates = ", ".join(f"{cell.framework} {cell.throughput:.4g}/s" for cell in cells)
    return f"{cells[0].model} on {cells[0].device_name}: {rates}"


def level_grows(metric: str, full: float) -> Rule:
    def judge(cells: Sequence[CellResult]) -> Finding:
        cases = []
        for own in _series(cell for cell in cells if metric in cell.measured):
            first, last = own[0].measured[metric], own[-1].measured[metric]
            enough = last >= (1 + GROWS) * first or min(first, last) >= full
            cases.append((enough, f"{own[0].name}: {_levels(own, metric)}"))
        return _all(cases, "series") if cases else _too_few(f"no series of {LEAST_BATCHES} batch sizes has {metric}")

    return judge


def recurrent_is_low(metric: str) -> Rule:
    def judge(cells: Sequence[CellResult]) -> Finding:
        cases = []
        known = [cell for cell in cells if metric in cell.measured]
        for device in sorted({cell.device_name for cell in known}):
            here = _largest([cell for cell in known if cell.device_name == device])
            own = [cell.measured[metric] for cell in here if cell.recurrent]
            others = [cell.measured[metric] for cell in here if not cell.recurrent]
            if own and others:
                ratio = fmean(own) / fmean(others)
                text = f"{device}: {100 * fmean(own):.1f} % against {100 * fmean(others):.1f} % of the others"
                cases.append((ratio <= LOWER, text))
        if not cases:
            return _too_few(f"no device has {metric} of a recurrent model and of another one")
        return _all(cases, "devices")

    return judge


def _largest(cells: Iterable[CellResult]) -> list[CellResult]:
    """Of each series the cell of the largest batch."""
    return [own[-1] for own in _series(cells, least=1)]


def long_kernels_are_low(cells: Sequence[CellResult]) -> Finding:
    cases = []
    for cell in _largest(cell for cell in cells if cell.kernels):
        known = [(name, share, level) for name, share, level in cell.kernels if level is not None]
        whole = sum(share for _, share, _ in known)
        if whole <= 0:
            continue
        average = sum(share * level for _, share, level in known) / whole
        low = sorted((item for item in known if item[2] < average), key=lambda item: -item[1])[:5]
        told = ", ".join(f"{name[:40]} {100 * share:.1f} % of time at {100 * own:.0f} %" for name, share, own in low)
        long = any(share >= LONG_KERNEL for _, share, _ in low)
        cases.append((long, f"{cell.name}, on average {100 * average:.0f} %: {told or 'none below'}"))
    return _all(cases, "kernel tables") if cases else _too_few("no kernel table has FP32 utilisations (ncu)")


def host_is_idle(cells: Sequence[CellResult]) -> Finding:
    metric = "cpu_utilization_ratio"
    known = _largest(cell for cell in cells if metric in cell.measured)
    if not known:
        return _too_few("no result has the CPU utilisation")
    cases = [(cell.measured[metric] <= LOW_CPU, f"{cell.name}: {100 * cell.measured[metric]:.1f} %") for cell in known]
    return _all(cases, "results", MOST)


def better_devices_are_used_less(cells: Sequence[CellResult]) -> Finding:
    """The same work on two GPUs: the one with the higher peak is faster, and its peak used less."""
    metric = "mfu_data_sheet_ratio"
    by_work: dict[tuple[str, str, int], dict[str, CellResult]] = {}
    for cell in cells:
        if cell.measured.get(metric) and cell.measured.get("model_flops_per_s"):
            by_work.setdefault((cell.model, cell.framework, cell.batch), {}).setdefault(cell.device_name, cell)
    cases = []
    for own in by_work.values():
        for a, b in combinations(own.values(), 2):
            low, high = sorted((a, b), key=_peak)
            if _peak(high) < (1 + GROWS) * _peak(low):
                continue
            used = f"{100 * low.measured[metric]:.1f} % of {low.device_name}'s peak"
            text = f"{high.model} {high.framework} batch {high.batch}: {used}, {100 * high.measured[metric]:.1f} % of "
            text += f"{high.device_name}'s; {high.throughput / low.throughput:.2f} times as fast"
            faster = high.throughput > low.throughput
            cases.append((faster and high.measured[metric] < low.measured[metric], text))
    return _all(cases, "pairs", MOST) if cases else _too_few("no cell was measured on two GPUs of different peaks")


def _peak(cell: CellResult) -> float:
    return cell.measured["model_flops_per_s"] / cell.measured["mfu_data_sheet_ratio"]


def feature_maps_dominate(cells: Sequence[CellResult]) -> Finding:
    cases, shares = [], []
    for cell in _largest(cell for cell in cells if sum(cell.memory.values()) > 0):
        whole = sum(cell.memory.values())
        share = cell.memory.get("feature_maps", 0.0) / whole
        shares.append(share)
        biggest = max(cell.memory, key=lambda name: cell.memory[name])
        text = f"{cell.name} batch {cell.batch}: {100 * share:.0f} % feature maps, largest {biggest}"
        cases.append((biggest == "feature_maps", text))
    if not cases:
        return _too_few("no result has a memory profile")
    found = _all(cases, "memory profiles", MOST)
    told = f"largest class {found.told}, median share {100 * median(shares):.0f} %"
    answer = found.answer if median(shares) >= DOMINANT else Answer.DOES_NOT
    return Finding(answer, told, found.numbers)


def filling_memory_is_wasteful(cells: Sequence[CellResult]) -> Finding:
    """There is a model for which the last growth of the batch costs much memory and gains little."""
    cases = []
    for own in _series(cell for cell in cells if cell.measured.get("peak_memory_bytes")):
        before, last = own[-2], own[-1]
        more = last.measured["peak_memory_bytes"] / before.measured["peak_memory_bytes"] - 1.0
        gain = last.throughput / before.throughput - 1.0
        text = (
            f"{last.name}, batch {before.batch} to {last.batch}: {100 * more:+.0f} % memory, {100 * gain:+.1f} % rate"
        )
        cases.append((more >= MEMORY_GROWS and gain < SATURATED, text))
    if not cases:
        return _too_few(f"no series of {LEAST_BATCHES} batch sizes has the peak of memory")
    found = _all(cases, "series")
    wasteful = any(ok for ok, _ in cases)
    return Finding(Answer.HOLDS if wasteful else Answer.DOES_NOT, found.told, found.numbers)
