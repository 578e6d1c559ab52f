"""Lines as MLPerf's logging package writes them, so that tools that read such logs read tbd's runs.

The format is that of mlperf_logging 4.1.59 (github.com/mlcommons/logging, Apache-2.0): ``mllog/mllog.py: _encode_log``
writes a line, ``compliance_checker/mlp_parser`` reads it, ``mllog/constants.py`` has the keys. ``tracked_stats`` with
``throughput`` and a ``step`` is what github.com/NVIDIA/mlperf-common asks for (README, "Logging additional metrics").
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from orchestrator.api.exports.tables import as_json
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.measurement import METRICS
from orchestrator.domain.words.errors import Damaged
from orchestrator.domain.words.untrusted import mended
from orchestrator.services.result.export import Part
from orchestrator.services.result.export_columns import DAMAGED, Column, Line, record_of

TOKEN = ":::MLLOG "
POINT, START, END = "POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"
# The words of ``lowest_numerical_precision_in_linear`` (compliance_checker/training_6.1.0/common.yaml).
PRECISIONS = {"fp32": "fp32", "tf32": "tf32", "bf16": "bfloat16", "amp-bf16": "bfloat16", "amp-fp16": "fp16"}
# Every line of the package names the place in the source that logged it.
_PLACE = {"file": "tbd export", "lineno": 0}


def mllog(columns: Sequence[Column], parts: Iterable[Part]) -> Iterator[bytes]:
    """The lines of each run, in its own namespace: an interval may not begin twice in one."""
    for part in parts:
        yield b"".join(text for line in part for text in _of_line(columns, line))


def _of_line(columns: Sequence[Column], line: Line | Damaged) -> Iterator[bytes]:
    if isinstance(line, Line) and line.run is not None:
        yield from _of_run(columns, line, line.run)
    else:
        record = record_of(tuple(columns), line)
        yield _line("", 0.0, POINT, "tbd_damaged", record[DAMAGED.name], experiment_id=record["experiment_id"])


def _of_run(columns: Sequence[Column], line: Line, run: Run) -> Iterator[bytes]:
    """What was asked for, how it went, and in ``tbd_run`` all that tells how far it may be believed."""
    plan, at = run.plan, run.created_at
    yield _line(run.id, at, POINT, "submission_benchmark", plan.model)
    devices = (line.fingerprint.get("workload") or {}).get("device_models")
    if devices:
        yield _line(run.id, at, POINT, "submission_platform", f"{plan.topology} {', '.join(map(str, devices))}")
    yield _line(run.id, at, POINT, "seed", plan.seed)
    yield _line(run.id, at, POINT, "global_batch_size", plan.global_batch_size)
    if plan.precision in PRECISIONS:
        yield _line(run.id, at, POINT, "lowest_numerical_precision_in_linear", PRECISIONS[plan.precision])
    yield _line(run.id, at, POINT, "tbd_run", _all(columns, line))
    yield from _training(line, run)


def _training(line: Line, run: Run) -> Iterator[bytes]:
    """From the start of its processes to its end; nothing of a run that never started."""
    if run.started_at is None:
        return
    start_up = line.measured("start_up_s")
    begun = run.started_at
    if start_up is not None and start_up.value is not None and math.isfinite(start_up.value):
        yield _line(run.id, begun, START, "init_start")
        begun += start_up.value
        yield _line(run.id, begun, END, "init_stop")
    yield _line(run.id, begun, START, "run_start")
    if run.ended_at is None:
        return
    steps = run.analysis.summary.get("steps") if run.analysis else None
    stats = {metric: one.value for metric in METRICS if (one := line.measured(metric)) and _is_finite(one.value)}
    if stats:
        rate = line.measured("throughput")
        yield _line(run.id, run.ended_at, POINT, "tracked_stats", stats, step=steps, unit=rate.unit if rate else None)
    status = "success" if run.state is RunState.COMPLETED and run.usable else "aborted"
    yield _line(run.id, run.ended_at, END, "run_stop", status=status)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _all(columns: Sequence[Column], line: Line) -> dict[str, Any]:
    """The columns of JSON lines, without metrics: these are in ``tracked_stats``."""
    others = (metric for metric in METRICS if metric != "throughput")
    metrics = {f"{metric}{end}" for metric in others for end in ("", "_ci_low", "_ci_high")}
    kept = tuple(column for column in columns if column.name not in metrics)
    record = as_json(kept, record_of(kept, line))
    return {name: value for name, value in record.items() if value is not None}


def _line(namespace: str, at: float, event_type: str, key: str, value: Any = None, **metadata: Any) -> bytes:
    said = {name: one for name, one in metadata.items() if one is not None}
    content = {
        "namespace": namespace,
        "time_ms": int(at * 1000.0),
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": _PLACE | said,
    }
    return f"{TOKEN}{json.dumps(mended(content))}\n".encode()
