"""From a plan and a placement to the job that goes out to the hosts (``workers.trainer.protocol``)."""

from collections.abc import Mapping
from typing import Any

from orchestrator.domain.catalog import Catalog
from orchestrator.domain.placement import Placement
from orchestrator.domain.plan import Plan
from orchestrator.domain.run import Attempt, Run
from workers.trainer.protocol import PROTOCOL_VERSION

# Judgements. A run stops when the interval of its own mean is within 1 % and at least 50 effective intervals are
# steady; DESIGN calls fewer than 50 ``too_short``.
HALF_WIDTH_RATIO = 0.01
MIN_EFFECTIVE_INTERVALS = 50
# DESIGN section 3: one step an interval on CPU devices; 0.2 s or more on GPUs, where a step can be shorter than the
# cost of a synchronisation.
GPU_INTERVAL_S = 0.2
SAMPLE_S = 0.5


def build_job(run: Run, attempt: Attempt, catalog: Catalog) -> dict[str, Any]:
    """The job of ``attempt``, the same for all its nodes."""
    plan = run.plan
    first = attempt.placement.shares[0].node
    return {
        "protocol": PROTOCOL_VERSION,
        "attempt_id": attempt.id,
        "run_id": run.id,
        "token": attempt.token,
        "plan": plan.to_json(),
        "model": dict(catalog.models[plan.model].facts),
        "dataset": _dataset(plan, catalog),
        "interpreter": {"name": plan.interpreter, "definition": None, "python": None, "environment": {}},
        "processes": _one_worker_per_device(attempt.placement),
        "world_size": plan.world_size,
        "control": {"host": "127.0.0.1" if plan.nodes == 1 else first, "port": None},
        "stopping": _stopping(plan),
        "interval_s": GPU_INTERVAL_S if plan.device == "cuda" else 0.0,
        "sample_s": SAMPLE_S,
    }


def _dataset(plan: Plan, catalog: Catalog) -> dict[str, Any] | None:
    if plan.data == "synthetic":
        return None
    return dict(catalog.datasets[plan.data].facts) | {"root": None}


def _stopping(plan: Plan) -> Mapping[str, Any]:
    return {
        "max_steps": plan.max_steps,
        "half_width_ratio": HALF_WIDTH_RATIO,
        "min_effective_intervals": MIN_EFFECTIVE_INTERVALS,
        "max_duration_s": None,
    }


def _one_worker_per_device(placement: Placement) -> list[dict[str, Any]]:
    """A worker for each device, ranks in the order of the placement."""
    processes: list[dict[str, Any]] = []
    for share in placement.shares:
        for local_rank, device in enumerate(share.devices):
            rank = len(processes)
            processes.append(
                {
                    "name": f"worker{rank}",
                    "role": "worker",
                    "node": share.node,
                    "ranks": [rank],
                    "local_ranks": [local_rank],
                    "devices": [device.to_json()],
                }
            )
    return processes
