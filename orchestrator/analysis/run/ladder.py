"""The utilisation ladder: which share of what its devices can do a training used, against several peaks.

Each rung is measured for the whole run and, where it can be told apart, for each rank (or each process that drives
several: it is then named after its first rank). Operations are the model's own, from its facts: three times a forward
pass, less the gradient of the first layer's input, which nobody computes; recomputation does not count. Peaks stand in
the job (``workers.trainer.protocol``): of the vendor's data sheet, dense, and as calibrated on that device.

TBD's eq. 2 (Zhu et al., IISWC 2018) is operations executed while active / (peak x active time). Executed operations
are known from hardware counters only; what stands here by method ``analytic`` is the model's operation rate while
active. On a CPU device the peak is the calibrated one, and active time the union of operators.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.analysis.log import windows
from orchestrator.analysis.run import executed_operations, utilization
from orchestrator.analysis.run.evidence import Evidence
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.domain.value.measurement import Measurement
from workers.trainer import protocol

NO_OPERATIONS = "the model's facts have no count of operations"
NO_SHEET = "a CPU device has no data sheet's peak: see the calibrated one"
NO_DATA_SHEET = "the facts have no data sheet of the device (suites/device_peaks.toml)"
NO_CALIBRATION = "no calibration of the device was known when the run began: see tbd calibrate"
# What Python raises at values of a kind that no profile has: it costs the profile, not the run.
IMPOSSIBLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)
# reading -> measurement and what it is.
PIPES = {
    "sm_active_ratio": "NVML GPM, SM activity",
    "fp32_pipe_ratio": "NVML GPM, FP32 pipe activity",
    "tensor_pipe_ratio": "NVML GPM, activity of any tensor pipe",
}


@dataclass(frozen=True)
class Driver:
    """A process of the attempt with its ranks and devices, and what each of its steps takes."""

    ranks: tuple[int, ...]
    node: str
    devices: tuple[Mapping[str, Any], ...]
    step_flops: float | None

    @property
    def subject(self) -> str:
        return f"rank:{min(self.ranks)}"


def model_flops_per_sample(job: Mapping[str, Any]) -> float | None:
    """Operations of a training step per sample of a batch: what the facts say of a step, else 3 x forward less the
    input's gradient; None where the facts lack it."""
    size = (job["model"].get("sizes") or {}).get(job["plan"].get("size")) or {}
    if step := size.get("step_flops_per_sample"):
        return float(step)
    forward = size.get("flops_per_sample")
    if not forward:
        return None
    return 3.0 * forward - (size.get("input_gradient_flops_per_sample") or 0.0)


def measurements(evidence: Evidence, scope: str, believed: bool) -> list[Measurement]:
    """All rungs but eq. 1 and 3 of the whole run. ``believed``: the run is not broken; else its rates are not told."""
    drivers = _drivers(evidence.job)
    spans = evidence.spans
    found = [*_pipes(spans, drivers, scope), *_profiled(evidence, drivers), *_shares_of_ranks(spans, drivers, scope)]
    if not believed or evidence.counted is None or not drivers:
        return found
    executed = _counted(evidence, drivers) or list(_analytic(evidence, drivers))
    return [*found, *executed, *_model_rates(evidence, drivers, scope)]


def _drivers(job: Mapping[str, Any]) -> list[Driver]:
    per_sample = model_flops_per_sample(job)
    samples = job["plan"].get("per_device_batch_size")
    found = []
    for process in job["processes"]:
        if process["ranks"] and process["devices"]:
            step = per_sample * samples * len(process["ranks"]) if per_sample and samples else None
            found.append(Driver(tuple(process["ranks"]), process["node"], tuple(process["devices"]), step))
    return found


def peak_of(job: Mapping[str, Any], driver: Driver, source: str) -> float | None:
    """The peak of all devices of a process together: ``source`` is ``data_sheet`` or ``calibrated``."""
    entries = {(entry["node"], entry["device"]): entry for entry in job.get("peaks") or ()}
    total = 0.0
    for device in driver.devices:
        entry = entries.get((driver.node, device["id"])) or {}
        if not entry.get(source):
            return None
        total += protocol.number(entry[source]["flops_per_s"])
    return total


def _pipes(spans: Sequence[NodeSpan], drivers: Sequence[Driver], scope: str) -> Iterator[Measurement]:
    """GPM's readings in the steady part; null with the driver's reason where it gave none."""
    for metric, method in PIPES.items():
        means: list[float | None] = []
        for node in spans:
            for gpu in node.gpus():
                level = windows.mean(node.log.readings, node.span, metric, gpu)
                means.append(level)
                yield from _of_rank(drivers, gpu, Measurement(metric, level, "1", method, scope=scope))
        known = [level for level in means if level is not None]
        if known and len(known) == len(means):
            yield Measurement(metric, sum(known) / len(known), "1", f"{method}; mean of devices", scope=scope)
        else:
            yield utilization.missing(
                metric, _why_unread(spans, metric) if means else "a CPU device has no such counter"
            )


def _shares_of_ranks(spans: Sequence[NodeSpan], drivers: Sequence[Driver], scope: str) -> Iterator[Measurement]:
    """Eq. 1 of each rank's GPU, and eq. 3 of each rank's cores. GPUs have no cores of their own: there eq. 3 is told of
    the whole run only."""
    busy = "NVML busy time, steady part"
    cores = "active time of the rank's logical cores / (cores x elapsed), /proc/stat"
    for node in spans:
        for gpu in node.gpus():
            level = windows.mean(node.log.readings, node.span, "busy_ratio", gpu)
            yield from _of_rank(drivers, gpu, Measurement("compute_utilization_ratio", level, "1", busy, scope=scope))
        for device in node.devices():
            if device.get("cores"):
                level = utilization.cores_active([(node, device["cores"])])
                own = Measurement("cpu_utilization_ratio", level, "1", cores, scope=scope)
                yield from _of_rank(
                    [one for one in drivers if one.node == node.log.node], f"device:{device['id']}", own
                )


def _of_rank(drivers: Sequence[Driver], gpu: str, measured: Measurement) -> Iterator[Measurement]:
    if measured.value is None or sum(len(driver.ranks) for driver in drivers) < 2:
        return
    for driver in drivers:
        for rank, device in zip(driver.ranks, driver.devices, strict=False):
            if f"device:{device['id']}" == gpu:
                yield replace(measured, subject=f"rank:{rank}")


def _why_unread(spans: Sequence[NodeSpan], metric: str) -> str:
    """What the driver said of a metric: ``unsupported`` and ``no_permission`` are not the same."""
    for node in spans:
        for _, data in node.log.of("availability"):
            for known in data.values():
                if known.get(metric) not in (None, "ok"):
                    return f"{known[metric]}: the driver's answer on {node.log.node}"
    return utilization.NOTHING_READ


def _profiled(evidence: Evidence, drivers: Sequence[Driver]) -> Iterator[Measurement]:
    """Eq. 1 by the union of kernels in the profiled phase. On CPU devices that is eq. 1's measurement itself.

    A profiler slows down the launching of kernels, and not the kernels: on a GPU their time in a step stands over that
    of a timed step. Two runs of ResNet-50 alike on an H200 had 0.84 and 0.74 over the profiled steps' own time, 0.955
    and 0.954 over the timed one's.
    """
    kinds = {device["kind"] for driver in drivers for device in driver.devices}
    activities = _activities(evidence, drivers)
    if not activities:
        return
    metric = "profiled_utilization_ratio" if "cuda" in kinds else "compute_utilization_ratio"
    parts = [(driver, active, elapsed) for driver, active, elapsed, _ in activities if elapsed > 0]
    method = utilization.union_method(activities[0][3])
    counted = evidence.counted
    if "cuda" in kinds and counted is not None:
        step_s = float(counted.durations_s.sum()) / sum(counted.steps)
        parts = [(driver, active, step_s * int(data["steps"])) for driver, active, _, data in activities]
        method += " in a step / the mean time of a timed step"
    if len(parts) > 1:
        for driver, active, elapsed in parts:
            yield Measurement(metric, active / elapsed, "1", method, subject=driver.subject)
    if metric == "profiled_utilization_ratio" and parts:
        whole = sum(active for _, active, _ in parts) / sum(elapsed for _, _, elapsed in parts)
        yield Measurement(metric, whole, "1", method, n=float(len(parts)))


def _activities(evidence: Evidence, drivers: Sequence[Driver]) -> list[tuple[Driver, float, float, Mapping[str, Any]]]:
    """(process, active seconds, elapsed seconds, event) of every process that reported its activity."""
    by_rank = {min(driver.ranks): driver for driver in drivers}
    found = []
    for rank, data in sorted(utilization.active(evidence.logs).items()):
        if rank in by_rank:
            active_s, elapsed_s = protocol.number(data["active_s"]), protocol.number(data["elapsed_s"])
            found.append((by_rank[rank], active_s, elapsed_s, data))
    return found


def _counted(evidence: Evidence, drivers: Sequence[Driver]) -> list[Measurement]:
    """Eq. 2 itself, where hardware has counted the operations of a step: of one rank, for only that can be replayed."""
    try:
        found = executed_operations.counted([data for _, data in evidence.of("counters")])
    except IMPOSSIBLE:
        return []
    activities = _activities(evidence, drivers)
    if found is None or len(drivers) != 1 or not activities:
        return []
    driver, active, _, data = activities[0]
    peak = peak_of(evidence.job, driver, "data_sheet")
    if peak is None or active <= 0:
        return []
    value = found.operations * int(data["steps"]) / (peak * active)
    method = "counters: operations of one replayed step (ncu) / (the data sheet's dense peak x active time of a step)"
    if found.unread:
        method += f"; {found.unread} of {found.kernels} kernels could not be counted"
    scope = f"one counted step, active time of {data['steps']} profiled ones"
    return [Measurement("fp32_utilization_ratio", value, "1", method, scope=scope, n=1.0)]


def counted_kernels(evidence: Evidence) -> tuple[dict[str, float | None] | None, str | None]:
    """(FP32 utilisation of each kernel of the kernel table, None where nothing was counted; why not, where known)."""
    events = [data for _, data in evidence.of("counters")]
    if not events:
        return None, _why_uncounted(evidence)
    job, drivers = evidence.job, _drivers(evidence.job)
    peak = peak_of(job, drivers[0], "data_sheet") if len(drivers) == 1 else None
    if peak is None:
        return None, NO_DATA_SHEET
    if job["plan"]["precision"] != "fp32":
        return None, "the peak that is known is not that of the FP32 pipes"
    try:
        names = {str(row[0]) for _, data in evidence.of("kernels") for row in data["rows"]}
        return executed_operations.by_kernel(events, names, peak), None
    except IMPOSSIBLE as error:
        return None, f"what was counted cannot be read: {error}"


def _why_uncounted(evidence: Evidence) -> str | None:
    devices = [device for process in evidence.job["processes"] for device in process["devices"]]
    if not any(device["kind"] == "cuda" for device in devices):
        return None
    if len(evidence.ranks) > 1:
        return "kernels are replayed while they are counted: with one rank only"
    for _, data in evidence.of("profile_failed"):
        if data["profile"] == "counters":
            return f"ncu: {data['failure']['message']}"
    return "ncu was not on the PATH of the node"


def _analytic(evidence: Evidence, drivers: Sequence[Driver]) -> Iterator[Measurement]:
    """Eq. 2 by method ``analytic``: against the data sheet on GPUs, against the calibrated peak on CPU devices."""
    metric = "fp32_utilization_ratio"
    gpu = any(device["kind"] == "cuda" for driver in drivers for device in driver.devices)
    source = "data_sheet" if gpu else "calibrated"
    operations = capacity = 0.0
    found = []
    activities = _activities(evidence, drivers)
    for driver, active, _, data in activities:
        peak = peak_of(evidence.job, driver, source)
        if peak is None or driver.step_flops is None or active <= 0:
            continue
        done = driver.step_flops * int(data["steps"])
        operations, capacity = operations + done, capacity + peak * active
        found.append(Measurement(metric, done / (peak * active), "1", _analytic_method(gpu), subject=driver.subject))
    if not found or len(found) < len(drivers):
        yield utilization.missing(metric, _why_not(evidence, drivers, gpu, activities))
        return
    yield from found if len(found) > 1 else ()
    yield Measurement(
        metric,
        operations / capacity,
        "1",
        _analytic_method(gpu),
        n=float(len(found)),
        scope=f"{sum(int(data['steps']) for *_, data in activities)} profiled steps after the timed phase",
    )


def _analytic_method(gpu: bool) -> str:
    peak = "the data sheet's dense peak" if gpu else "the calibrated peak of the CPU device"
    return f"analytic: the model's operation rate while active / {peak}; not counted in hardware"


def _why_not(evidence: Evidence, drivers: Sequence[Driver], gpu: bool, activities: Sequence[Any]) -> str:
    if any(driver.step_flops is None for driver in drivers):
        return NO_OPERATIONS
    if len(activities) < len(drivers):
        return utilization.why_no_activity(evidence.logs)
    return NO_DATA_SHEET if gpu else NO_CALIBRATION


def _model_rates(evidence: Evidence, drivers: Sequence[Driver], scope: str) -> Iterator[Measurement]:
    """The model's operations per second of the steady part, and that as a share of both peaks."""
    part = evidence.counted
    assert part is not None
    steps, seconds = sum(part.steps), float(part.durations_s.sum())
    flops = [driver.step_flops for driver in drivers]
    known = [amount for amount in flops if amount is not None]
    if len(known) < len(flops) or seconds <= 0:
        for metric in ("model_flops_per_s", "mfu_data_sheet_ratio", "mfu_calibrated_ratio"):
            yield utilization.missing(metric, NO_OPERATIONS)
        return
    rate = sum(known) * steps / seconds
    method = "steps of the steady part x (3 x forward - input gradient) by the model's facts / elapsed"
    yield Measurement("model_flops_per_s", rate, "FLOP/s", method, scope=scope)
    own = _own_seconds(evidence, drivers)
    for source, words in (("data_sheet", "the data sheet's dense peak"), ("calibrated", "the calibrated peak")):
        yield from _shares(evidence.job, drivers, source, words, rate, steps, own, scope)


def _shares(
    job: Mapping[str, Any],
    drivers: Sequence[Driver],
    source: str,
    words: str,
    rate: float,
    steps: int,
    own: Mapping[str, float],
    scope: str,
) -> Iterator[Measurement]:
    """MFU against one kind of peak: of each rank in its own time, of the run in the world's."""
    metric = f"mfu_{source}_ratio"
    peaks = [peak_of(job, driver, source) for driver in drivers]
    known = [peak for peak in peaks if peak]
    if len(known) < len(drivers):
        gpu = any(device["kind"] == "cuda" for driver in drivers for device in driver.devices)
        no_sheet = NO_DATA_SHEET if gpu else NO_SHEET
        yield utilization.missing(metric, no_sheet if source == "data_sheet" else NO_CALIBRATION)
        return
    method = f"model operations per second of the steady part / {words}"
    if len(drivers) > 1:
        for driver, peak in zip(drivers, peaks, strict=True):
            seconds = own.get(driver.subject, 0.0)
            if seconds > 0 and peak and driver.step_flops:
                share = driver.step_flops * steps / seconds / peak
                yield Measurement(metric, share, "1", method, scope=scope, subject=driver.subject)
    yield Measurement(metric, rate / sum(known), "1", f"{method} of all devices", scope=scope, n=float(len(drivers)))


def _own_seconds(evidence: Evidence, drivers: Sequence[Driver]) -> dict[str, float]:
    """How long each process itself took for the steady part."""
    assert evidence.counted is not None
    since = evidence.counted.first_steps[0]
    by_rank: dict[int, float] = {}
    for log in evidence.logs:
        for item in log.intervals:
            if item.phase == "timed" and item.first_step >= since:
                by_rank[item.rank] = by_rank.get(item.rank, 0.0) + item.duration_s
    return {driver.subject: by_rank.get(min(driver.ranks), 0.0) for driver in drivers}
