"""A row of results: what the runs of one cell of an experiment came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.basis import Basis
from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.value.measurement import Measurement, Reason, Validity
from orchestrator.domain.value.variation import Components, Cut, Movement


@dataclass(frozen=True)
class Precision:
    """``half_width_ratio`` of the 95 % interval that there is, and whether it is within ``target``."""

    target: float
    half_width_ratio: float | None
    met: bool
    n_wanted: int | None


@dataclass(frozen=True)
class Row:
    """One cell. ``measurements`` has what was measured, ``reasons`` why each other metric was not.

    Attributes:
        basis: the runs that its numbers rest on; ``validity`` says how far those may be believed.
        differing: the parts of the fingerprint (subject, rig) in which these runs differ.
        unit: of rates. ``rates`` are the throughput of these runs by their ids, and ``planned_rates`` of the planned
            repetitions, each from the warm-up of their own: what comparisons are made of.
        variation: how much the throughput varies within runs, between runs of a node and between nodes.
        fleet: the throughput of nodes like these; None for fewer than five nodes.
        precision: whether ``precision_target`` was met; None where none was asked for.
        first_stage: the valid runs of Stein's first stage; None where the number of runs was fixed.
        cut: where the warm-up of all its runs ends. ``n_scouts`` runs were too short for it and give no number.
        planned: the repetitions that were planned; None where variance chose their number.
        movement: how far the series moved between earlier sessions; None where history does not know.
    """

    experiment_id: str
    experiment_name: str
    plan: Plan
    runs: Sequence[Run]
    basis: Basis
    validity: Validity
    fingerprint: Mapping[str, Any] | None
    differing: tuple[str, ...]
    measurements: Mapping[str, Measurement]
    reasons: Mapping[str, str]
    unit: str | None
    rates: Mapping[str, float]
    planned_rates: Mapping[str, float]
    variation: Components | None
    fleet: Measurement | None
    precision: Precision | None
    first_stage: int | None
    cut: Cut | None
    n_scouts: int
    planned: int | None
    movement: Movement | None

    @property
    def n_used(self) -> int:
        """How many runs its numbers rest on."""
        return len(self.basis.runs) - self.n_scouts

    @property
    def left_out(self) -> list[Run]:
        """Runs that have ended and that the numbers do not rest on."""
        used = {run.id for run in self.basis.runs}
        return [run for run in self.runs if run.state in TERMINAL and run.id not in used]

    @property
    def n_ended(self) -> int:
        return sum(1 for run in self.runs if run.state in TERMINAL)

    def rates_of(self, basis: Basis) -> list[tuple[Run, float]]:
        """(run, its throughput) of those that have one, in the order of their repetitions. ``basis``: its own, or that
        of the planned repetitions."""
        rates = self.rates if basis.runs == self.basis.runs else self.planned_rates
        return [(run, rates[run.id]) for run in basis.runs if run.id in rates]


def why_not_sound(run: Run) -> tuple[Reason, ...]:
    """Why a run that has ended is not sound; nothing for one that is or has not ended."""
    if run.state not in TERMINAL or run.sound:
        return ()
    if run.failure:
        return (Reason(run.failure.kind.value, run.failure.message, False),)
    if run.analysis and run.analysis.validity.reasons:
        return run.analysis.validity.reasons
    return (Reason(run.state.value, f"the run was {run.state.value}", False),)


def place_of(run: Run) -> str:
    """The nodes on which a run was carried out, as one word: what its noise belongs to."""
    return "+".join(run.attempt.placement.nodes) if run.attempt else ""
