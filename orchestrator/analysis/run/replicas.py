"""How far the replicas of an attempt are from each other at its end, from what each rank said of its weights.

Bitwise equality is told by checksums. The distance is that of the sketches (``workers.trainer.replica``), relative
to the larger of the two norms; the greatest over all pairs of ranks counts.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.run.evidence import Evidence
from orchestrator.domain.value.measurement import Measurement
from workers.trainer import protocol

METHOD = "greatest relative L2 distance over pairs of ranks, by a count sketch of all trainable weights"


@dataclass(frozen=True)
class Comparison:
    """``different`` counts sets of weights; ``distance_ratio`` is 0 where all are one; ``missing`` ranks are silent."""

    different: int
    distance_ratio: float
    missing: tuple[int, ...]


def compare(evidence: Evidence) -> Comparison | None:
    """Compare the replicas of all ranks; None where no rank described its own (a log of an earlier version)."""
    told = {rank: data for rank, data in evidence.of("replica") if rank is not None}
    if not told:
        return None
    missing = tuple(rank for rank in evidence.ranks if rank not in told)
    unlike = {str(data["sha256"]): data for data in told.values()}
    distances = [distance_ratio(one, other) for one, other in itertools.combinations(unlike.values(), 2)]
    return Comparison(len(unlike), max(distances, default=0.0), missing)


def distance_ratio(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the relative distance of two replicas, infinite where a weight is no number."""
    squares = sum((a - b) ** 2 for a, b in zip(_numbers(one["sketch"]), _numbers(other["sketch"]), strict=True))
    norm = max(protocol.number(one["norm"]), protocol.number(other["norm"]))
    ratio = math.sqrt(squares) / norm if norm > 0 else math.inf
    return ratio if math.isfinite(ratio) else math.inf


def _numbers(values: Sequence[Any]) -> list[float]:
    return [protocol.number(value) for value in values]


def measurement(evidence: Evidence) -> Measurement | None:
    """Return the distance as a measurement; None where there is one rank, or nothing was said."""
    found = compare(evidence) if len(evidence.ranks) > 1 else None
    if found is None or found.missing:
        return None
    finite = math.isfinite(found.distance_ratio)
    return Measurement(
        metric="replica_distance_ratio",
        value=found.distance_ratio if finite else None,
        unit="1",
        method="checksums of all ranks are equal" if found.different == 1 else METHOD,
        n=float(len(evidence.ranks)),
        scope="all ranks, at the end of the run",
        reason=None if finite else "a replica holds weights that are no numbers",
    )
