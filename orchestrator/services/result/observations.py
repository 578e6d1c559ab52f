"""Collect the sound results of single devices, and judge the TBD paper's observations by them."""

import json
from collections.abc import Sequence
from itertools import chain

from orchestrator.analysis.paper.observation_rules import CellResult
from orchestrator.analysis.paper.observations import Observation, observe
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Row
from orchestrator.domain.value.measurement import Grade
from orchestrator.domain.value.profile import Profiles
from orchestrator.services.context import Context
from orchestrator.services.result import results

# Of a plan, what says how it was repeated or placed, not what was computed.
_NOT_OF_THE_SERIES: tuple[str, ...] = (
    "per_device_batch_size",
    "global_batch_size",
    "repetition",
    "seed",
    "max_steps",
    "max_epochs",
    "min_measure_s",
    "max_measure_s",
    "timeout_s",
    "profile",
    "node_names",
    "placement",
    "gpu_model",
)
_OF_THE_PROGRAM = ("model", "framework", "strategy", "interpreter", "options")


def observations(context: Context, experiments: Sequence[str] = ()) -> list[Observation]:
    """The twelve observations, judged by all results, or by those of ``experiments`` alone. While runs go on the former
    may be those of a little while ago: so many are not read for each look.

    Raises:
        NotFound: there is no such experiment.
    """
    if experiments:
        named = dict.fromkeys(context.store.experiment(one).id for one in experiments)
        return observe(cells(context, tuple(named)))
    known_by = context.store.newest_change()
    return context.kept.of("observations", known_by, lambda: observe(cells(context)), late=True)


def cells(context: Context, experiments: Sequence[str] = ()) -> list[CellResult]:
    """The sound results of single devices, newest first; of ``experiments`` alone, where some are named. A cell counts
    when all its runs have ended: then its row is stored, and not computed for a look."""
    wanted = [CellFilter(experiment_id=one, ended=True) for one in experiments] or [CellFilter(ended=True)]
    rows = chain.from_iterable(results.all_rows(context, one) for one in wanted)
    return [cell for row in rows if (cell := _cell(context, row)) is not None]


def _cell(context: Context, row: Row) -> CellResult | None:
    plan = row.plan
    rate = row.measurements.get("throughput")
    if plan.world_size != 1 or row.basis.grade is not Grade.SOUND or rate is None or not rate.value:
        return None
    facts = context.catalog.models.get(plan.model)
    name, memory_bytes = _device(row)
    found = context.store.profiles(row.basis.runs[-1].id) if plan.profile else Profiles()
    return CellResult(
        series=_text(plan, _NOT_OF_THE_SERIES) + name,
        workload=_text(plan, (*_NOT_OF_THE_SERIES, *_OF_THE_PROGRAM)) + name,
        model=plan.model,
        dominant_layer=(facts.dominant_layer if facts else None) or "",
        framework=plan.framework,
        device_kind=plan.device,
        device_name=name,
        batch=plan.per_device_batch_size,
        throughput=rate.value,
        measured={metric: one.value for metric, one in row.measurements.items() if one.value is not None},
        device_memory_bytes=memory_bytes,
        memory={name: float(share.at_peak_bytes) for one in found.memory for name, share in one.classes.items()},
        kernels=[
            (one.name, one.share_ratio, one.fp32_utilization_ratio) for table in found.kernels for one in table.rows
        ],
    )


def _text(plan: Plan, without: Sequence[str]) -> str:
    return json.dumps({key: value for key, value in plan.identity().items() if key not in without}, sort_keys=True)


def _device(row: Row) -> tuple[str, float | None]:
    """Name and memory of the device that its first run held."""
    for run in row.basis.runs:
        if run.attempt is not None:
            for share in run.attempt.placement.shares:
                for device in share.devices:
                    return device.name, device.memory_bytes
    return row.plan.device, None
