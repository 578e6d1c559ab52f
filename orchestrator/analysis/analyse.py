"""From the complete logs of an attempt to its measurements: one pure function.

It never raises on a bad log: that is a result, ``invalid_log``. What an attempt's own agent says of its failure counts
before anything that is concluded here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from orchestrator.analysis.log import circumstances, passed
from orchestrator.analysis.log.events import LogError, NodeLog, read_log
from orchestrator.analysis.log.failures import failure_of
from orchestrator.analysis.log.windows import span_of
from orchestrator.analysis.probe import calibration, netbench
from orchestrator.analysis.profile import memory, profiles
from orchestrator.analysis.run import (
    conditions,
    ladder,
    quality,
    replicas,
    throughput,
    time_series,
    utilization,
    validity,
)
from orchestrator.analysis.run.evidence import Evidence
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.analysis.statistics import course, settling
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Measurement, Reason, Validity
from orchestrator.domain.value.profile import NO_KINDS, KernelKinds
from orchestrator.domain.value.timed_intervals import Series
from orchestrator.domain.value.variation import Cut
from workers.trainer import protocol

# Stored with every measurement; raised when the same log would give other numbers.
CODE_VERSION = "analysis-7"
# The versions whose rates and series are those of this one: what is known of earlier runs need not be forgotten.
SAME_RATES = ("analysis-3", "analysis-4", "analysis-5", "analysis-6", CODE_VERSION)
# What Python raises at values of a kind or a size that no log of ours has.
_IMPOSSIBLE = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError)
# metric -> what of an interval's work it is the share of: seconds of the input's parts, of a model that plays games.
PARTS_OF_INPUT = {"emulator_ratio": "emulator_s", "acting_ratio": "acting_s"}
THIS_RUN = "this run only; interval from the variance within it"


def analyse(logs: Mapping[str, Sequence[Mapping[str, Any]]], kinds: KernelKinds = NO_KINDS) -> Analysis:
    """Return all that the logs of an attempt (node -> its entries, in order) say.

    Args:
        kinds: what kind of work each kernel does, by its name.
    """
    try:
        return analyse_read([read_log(node, entries) for node, entries in sorted(logs.items())], kinds)
    except LogError as error:
        return _failed(Failure(FailureKind.INVALID_LOG, str(error)), {}, {})


def analyse_read(read: Sequence[NodeLog], kinds: KernelKinds = NO_KINDS) -> Analysis:
    """The same of logs that were read, in the order of their nodes' names."""
    found = _analysed(read, kinds)
    try:
        return replace(found, time_series=time_series.time_series(read))
    except _IMPOSSIBLE:  # why it failed may be just that
        return found


def _analysed(read: Sequence[NodeLog], kinds: KernelKinds) -> Analysis:
    try:
        if not read:
            raise LogError("there is no log")
        told = circumstances.circumstances(read)
        failure = failure_of(read)
    except LogError as error:
        return _failed(Failure(FailureKind.INVALID_LOG, str(error)), {}, {})
    except _IMPOSSIBLE as error:
        return _failed(_impossible(error), {}, {})
    if failure is not None:
        return _failed(failure, told, _so_far(read))
    try:
        return _judged(read, told, kinds)
    except _IMPOSSIBLE as error:
        return _failed(_impossible(error), told, _so_far(read))


def _impossible(error: Exception) -> Failure:
    return Failure(FailureKind.INVALID_LOG, f"the log holds what cannot be: {type(error).__name__}: {error}")


def _failed(failure: Failure, told: Mapping[str, Any], summary: Mapping[str, Any]) -> Analysis:
    return Analysis(
        validity=Validity((Reason(failure.kind.value, failure.message, replaceable=False),)),
        failure=failure,
        circumstances=told,
        summary=summary,
        code_version=CODE_VERSION,
    )


def _judged(logs: Sequence[NodeLog], told: Mapping[str, Any], kinds: KernelKinds) -> Analysis:
    measures = logs[0].job["model"].get("measures")
    if measures == "exchange":
        return netbench.judged(logs, told, CODE_VERSION)
    if measures == "calibration":
        return calibration.judged(logs, told, CODE_VERSION)
    evidence = gather(logs)
    verdict = validity.judge(evidence)
    found = profiles.profiles_of(logs, kinds, *ladder.counted_kernels(evidence))
    costs = profiles.measurements(logs, found, _step_time_s(evidence))
    judged = [] if verdict.broken else quality.measurements(logs)
    measurements = [*_speed(evidence, verdict), *_beside(evidence, not verdict.broken), *costs, *judged]
    return Analysis(
        validity=verdict,
        measurements=tuple(item for item in measurements if item is not None),
        circumstances=told,
        summary=_summary(evidence),
        code_version=CODE_VERSION,
        profiles=found,
        series=None if verdict.broken else _series(evidence),
    )


def _series(evidence: Evidence) -> Series | None:
    world = evidence.world
    if world is None or evidence.cut is None:
        return None
    return Series.of(world.durations_s.tolist(), world.works.tolist(), world.steps)


def gather(logs: Sequence[NodeLog]) -> Evidence:
    """Compute what the rules look at."""
    unit = logs[0].job["model"]["work_unit"]
    intervals = [item for log in logs for item in log.intervals]
    try:
        world = throughput.world_intervals(intervals, unit)
    except ValueError as error:
        return Evidence(logs, None, str(error), None, _spans(logs, 0))
    if not len(world) or not (world.works > 0).all():
        return Evidence(logs, world, None, None, _spans(logs, 0))
    cut = settling.cut_of([world.durations_s / world.works], remembered_cut(logs[0].job, len(world)))
    spans = _spans(logs, world.first_steps[cut.first])
    trends = conditions.trends(spans)
    seen = conditions.beside(course.judge(world.durations_s, world.works, cut.first), trends)
    return Evidence(logs, world, None, seen, spans, trends, cut)


def remembered_cut(job: Mapping[str, Any], intervals: int) -> int | None:
    """What history knew of the workload's warm-up when the job was made; half of this run at most."""
    found = job["stopping"].get("remembered_cut")
    return None if found is None else min(int(found), intervals // 2)


def _spans(logs: Sequence[NodeLog], first_step: int) -> list[NodeSpan]:
    found = [(log, span_of(log.intervals, first_step=first_step)) for log in logs]
    return [NodeSpan(log, span) for log, span in found if span is not None]


def _step_time_s(evidence: Evidence) -> float | None:
    """The mean time of a step in the steady part; to compare profiled steps with, so also where the run is broken."""
    part = evidence.counted
    if part is None:
        return None
    return float(part.durations_s.sum()) / sum(part.steps)


def _speed(evidence: Evidence, verdict: Validity) -> list[Measurement]:
    """Throughput and times of steps: a broken run has none."""
    part = evidence.counted
    if verdict.broken or part is None:
        return []
    model = evidence.job["model"]
    unit, definition = model["work_unit"], model.get("work_unit_definition")
    return [
        throughput.rate_measurement(part, unit, definition, THIS_RUN),
        *throughput.step_time_measurements(part, THIS_RUN),
        *_warm_up(evidence),
    ]


def _warm_up(evidence: Evidence) -> list[Measurement]:
    assert evidence.world is not None
    assert evidence.cut is not None
    warm = [item for log in evidence.logs for item in log.intervals if item.phase == "warmup" and item.rank == 0]
    first = evidence.cut.first
    method = f"{settling.MARGIN:g} x MSER on time per work (White 1997), or the remembered cut where that is later"
    steps = sum(item.n for item in warm) + sum(evidence.world.steps[:first])
    seconds = sum(item.duration_s for item in warm) + float(evidence.world.durations_s[:first].sum())
    return [
        Measurement(metric="warmup_steps", value=float(steps), unit="1", method=method, scope=THIS_RUN),
        Measurement(metric="warmup_s", value=seconds, unit="s", method=method, scope=THIS_RUN),
    ]


def _beside(evidence: Evidence, rated: bool) -> list[Measurement | None]:
    """What is measured beside the speed; worth having of a broken run too: it may tell why."""
    scope = "this run after its warm-up"
    nodes = evidence.spans
    found: list[Measurement | None] = [
        utilization.compute_utilization(nodes, scope),
        utilization.cpu_utilization(nodes, scope),
        utilization.cpu_utilization(nodes, scope, host=True),
        memory.peak_memory(evidence.logs),
        utilization.power(nodes, scope),
        replicas.measurement(evidence),
        *_losses(evidence),
        *_build_and_start(evidence),
        *ladder.measurements(evidence, scope, rated),
    ]
    part = evidence.counted
    if part is not None:
        work, seconds = float(part.works.sum()), float(part.durations_s.sum())
        found.append(utilization.energy_per_work(nodes, work, seconds, scope))
        found.extend(_input_share(evidence, part.first_steps[0], scope))
    return found


def _input_share(evidence: Evidence, since: int, scope: str) -> list[Measurement]:
    own = [
        item for log in evidence.logs for item in log.intervals if item.phase == "timed" and item.first_step >= since
    ]
    waits = [item.input_s for item in own if item.input_s is not None]
    if len(waits) < len(own):
        return []
    spent = {"input_ratio": sum(waits)}
    for part, amount in PARTS_OF_INPUT.items():
        if any(amount in item.work for item in own):
            spent[part] = sum(item.work.get(amount, 0.0) for item in own)
    elapsed_s, method = sum(item.duration_s for item in own), "timed in the loop"
    return [Measurement(metric, value / elapsed_s, "1", method, scope=scope) for metric, value in spent.items()]


def _losses(evidence: Evidence) -> list[Measurement]:
    values = [value for _, value in evidence.losses]
    if not values:
        return []
    last = values[-max(1, len(values) // 10) :]
    method = "reported by the framework, mean over ranks"
    return [
        Measurement(metric="loss_first", value=values[0], unit="1", method=method),
        Measurement(
            metric="loss_last", value=fmean(last), unit="1", method=f"{method}, last tenth", n=float(len(last))
        ),
    ]


def _build_and_start(evidence: Evidence) -> list[Measurement]:
    builds = [float(data["build_s"]) for _, data in evidence.of("built")]
    starts = [min(item.start_t for item in log.intervals) - log.opened_t for log in evidence.logs if log.intervals]
    found = []
    if builds:
        found.append(Measurement(metric="build_s", value=max(builds), unit="s", method="slowest rank"))
    if starts:
        method = "from the opening of the log to the first step, slowest node"
        found.append(Measurement(metric="start_up_s", value=max(starts), unit="s", method=method))
    return found


def _so_far(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """How far an attempt came that did not end well: its steps, and the curve of a run to convergence if it is one."""
    try:
        return _progress(logs) | quality.summary(logs)
    except _IMPOSSIBLE:  # why it failed may be just that
        return _progress(logs)


def _progress(logs: Sequence[NodeLog]) -> dict[str, Any]:
    ends = [item.first_step + item.n - 1 for log in logs for item in log.intervals]
    return {"steps": max(ends, default=0), "stopped": _stopped(logs)}


def _stopped(logs: Sequence[NodeLog]) -> dict[str, Any] | None:
    """Why the timed phase ended: the rule's decision with its numbers, else what the loop says."""
    decided = [data for log in logs for _, data in log.of("stopping_decided")]
    ended = [data for log in logs for _, data in log.of("stopped")]
    return dict(decided[0]) if decided else dict(ended[0]) if ended else None


def _summary(evidence: Evidence) -> dict[str, Any]:
    summary = _progress(evidence.logs) | quality.summary(evidence.logs)
    summary["device_time"] = passed.device_time(evidence.logs)
    if phases := _phases(evidence):
        summary["phases"] = phases
    if counted := [data for _, data in evidence.of("operations")]:
        # Of all ranks: each of them has counted its own step.
        flops = sum(protocol.number(data["flops"]) / int(data["steps"]) for data in counted)
        summary["operations"] = {"flops_per_step": flops, "method": str(counted[0]["method"])}
    if evidence.job.get("history"):
        summary["history"] = evidence.job["history"]
    if evidence.course is not None and evidence.cut is not None and evidence.world is not None:
        summary["steady"] = _course(evidence.course, evidence.cut, evidence)
        summary["phase_ends"] = time_series.phases(evidence.logs, evidence.world.first_steps[evidence.cut.first])
    return summary


def _phases(evidence: Evidence) -> dict[str, float]:
    """Seconds of each phase within the intervals, which is no part of them, of the first rank; of a person's script."""
    found: dict[str, float] = {}
    for item in (item for log in evidence.logs for item in log.intervals if item.rank == 0):
        for name, seconds in item.paused_s.items():
            found[name] = found.get(name, 0.0) + seconds
    return found


def _course(seen: course.Course, cut: Cut, evidence: Evidence) -> dict[str, Any]:
    """What the times of this run look like by themselves: findings, which grade nothing."""
    assert evidence.world is not None
    return {
        "state": seen.state.value,
        "reason": seen.reason,
        "first_interval": cut.first,
        "remembered_cut": remembered_cut(evidence.job, len(evidence.world)),
        "settled": cut.reason or "yes, as far as one run can tell",
        "intervals": len(evidence.world),
        "warmup_steps": int(sum(evidence.world.steps[: cut.first])),
        "warmup_s": float(evidence.world.durations_s[: cut.first].sum()),
        "effective_intervals": _finite(seen.error.effective),
        "autocorrelation_time": _finite(seen.error.autocorrelation_time),
        "change_ratio": _finite(seen.change_ratio),
        "outliers": seen.outliers,
        "outlier_time_ratio": seen.outlier_time_ratio,
        "beside": [trend.to_json() for trend in evidence.trends],
    }


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
