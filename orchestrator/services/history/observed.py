"""What a session says of each place that it was measured on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.analysis.history.baselines import Observation
from orchestrator.domain.runs.row import Share

UNKNOWN_DEVICE = "unknown devices"


@dataclass(frozen=True)
class Place:
    """The devices that runs held together: what a drift is of."""

    nodes: tuple[str, ...]
    device_ids: tuple[str, ...]

    @classmethod
    def of(cls, fingerprint: Mapping[str, Any]) -> "Place":
        """Where a run of that fingerprint was carried out."""
        rig = fingerprint.get("rig") or {}
        return cls(tuple(sorted(rig.get("nodes") or {})), tuple(sorted(map(str, rig.get("device_ids", ())))))

    @property
    def name(self) -> str:
        """The node and its devices, short enough for a table; of several nodes how many devices they have."""
        if not self.nodes:
            return UNKNOWN_DEVICE
        if len(self.nodes) > 1 or len(self.device_ids) > 2:
            return f"{'+'.join(self.nodes)} ({len(self.device_ids)} devices)"
        return " ".join([*self.nodes, *self.device_ids])

    @property
    def key(self) -> str:
        return repr((self.nodes, self.device_ids))


def observed(
    number: int, at: float, shares: Sequence[tuple[Share, Mapping[str, Any]]], *, sound: bool
) -> Iterator[tuple[Place, Observation]]:
    """(place, what the session of that number says of it) of those that have a rate. ``shares``: each with the
    fingerprint of one of its runs; ``at`` in seconds since the epoch."""
    for share, told in shares:
        rig = dict(told.get("rig") or {})
        place = Place(tuple(sorted(rig.get("nodes") or {})), tuple(sorted(map(str, rig.pop("device_ids", ())))))
        rates = [rate for rate in share.rates if 0.0 < rate < math.inf]
        if rates:
            value = float(np.mean(np.log(rates)))
            yield place, Observation(number, at, place.key, told.get("subject") or {}, rig, value, sound)
