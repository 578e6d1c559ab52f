"""A row of results: what the runs of one cell of an experiment came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.basis import Basis
from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.value.measurement import Grade, Measurement, Reason, Validity
from orchestrator.domain.value.variation import Components, Cut, Movement
from orchestrator.domain.words.plain import Plain, plain

UNKNOWN = ""  # the workload of runs that never told which devices they held


@dataclass(frozen=True)
class Precision:
    """``half_width_ratio`` of the 95 % interval that there is, and whether it is within ``target``."""

    target: float
    half_width_ratio: float | None
    met: bool
    n_wanted: int | None


@dataclass(frozen=True)
class Share(Plain):
    """The runs that count of one subject on one rig. ``run_id`` is one of them: its fingerprint has both.

    ``rates`` are of its runs, in the unit of the row, in the order of their repetitions.
    """

    subject_key: str
    rig_key: str
    run_id: str
    rates: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Numbers(Plain):
    """What the runs of a cell came to, without the runs: what is stored of a row. ``measurements`` has what was
    measured, ``reasons`` why each other metric was not.

    Attributes:
        run_ids: all runs of the cell, oldest first; ``used_ids`` are those that the numbers rest on, by ``grade``, and
            ``validity`` says how far these may be believed.
        began_at: when the first of these began, of all where there are none; None where none has.
        differing: the parts of the fingerprint (subject, rig) in which these runs differ.
        unit: of rates. ``rates`` are the throughput of these runs by their ids, and ``planned_rates`` of the planned
            repetitions, each from the warm-up of their own: what comparisons are made of.
        shares: the rates by subject and rig, in the order in which their runs began.
        variation: how much the throughput varies within runs, between runs of a node and between nodes.
        fleet: the throughput of nodes like these; None for fewer than five nodes.
        precision: whether ``precision_target`` was met; None where none was asked for.
        first_stage: the valid runs of Stein's first stage; None where the number of runs was fixed.
        cut: where the warm-up of all its runs ends. ``n_scouts`` runs were too short for it and give no number.
        planned: the repetitions that were planned; None where variance chose their number.
        movement: how far the series moved between earlier sessions; None where history does not know.
    """

    interpreter: str
    run_ids: tuple[str, ...]
    used_ids: tuple[str, ...]
    grade: Grade
    validity: Validity
    began_at: float | None
    fingerprint: Mapping[str, Any] | None
    differing: tuple[str, ...]
    measurements: Mapping[str, Measurement]
    reasons: Mapping[str, str]
    unit: str | None
    rates: Mapping[str, float]
    planned_rates: Mapping[str, float]
    shares: tuple[Share, ...]
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
        return len(self.used_ids) - self.n_scouts

    def to_json(self) -> dict[str, Any]:
        """Without what a row has besides."""
        return {name: plain(getattr(self, name)) for name in Numbers.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Row(Numbers):
    """One cell of an experiment with all its runs, oldest first; ``basis``: those that its numbers rest on."""

    experiment_id: str
    experiment_name: str
    plan: Plan
    runs: Sequence[Run]
    basis: Basis

    @classmethod
    def of(cls, found: Numbers, experiment_name: str, runs: Sequence[Run]) -> "Row":
        """The row of the runs that ``found`` was made of."""
        by_id = {run.id: run for run in runs}
        return cls(
            **vars(found),
            experiment_id=runs[0].experiment_id,
            experiment_name=experiment_name,
            plan=runs[0].plan,
            runs=runs,
            basis=Basis(tuple(by_id[one] for one in found.used_ids), found.grade),
        )

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
        rates = self.rates if [run.id for run in basis.runs] == list(self.used_ids) else self.planned_rates
        return [(run, rates[run.id]) for run in basis.runs if run.id in rates]


def why_not_sound(run: Run) -> tuple[Reason, ...]:
    """Why a run that has ended is not sound; nothing for one that is or has not ended."""
    if run.state not in TERMINAL or run.sound:
        return ()
    if run.failure:
        return (Reason(run.failure.kind.value, run.failure.message, False),)
    if run.validity and run.validity.reasons:
        return run.validity.reasons
    return (Reason(run.state.value, f"the run was {run.state.value}", False),)


def place_of(run: Run) -> str:
    """The nodes on which a run was carried out, as one word: what its noise belongs to."""
    return "+".join(run.attempt.placement.nodes) if run.attempt else ""
