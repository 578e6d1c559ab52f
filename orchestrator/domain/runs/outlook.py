"""What a queued run waits for, as a person is told it."""

from dataclasses import dataclass

from orchestrator.domain.asked.placement import NodeShare


@dataclass(frozen=True)
class Outlook:
    """What a queued run waits for.

    ``before``: how many runs come first by turns, where each takes a minute of its devices; ``at_least``: the run is
    behind all that were counted. ``first``: the run whose turn is next, of ``first_owner``. ``kept`` is for this run
    until the runs ``awaited`` have ended. ``starts_at``: by when that is, as sure as ``evidence``: ``earlier_runs`` of
    their cells, or (for one of them at least) its ``timeout_s``; None where nothing is kept for it.
    """

    before: int
    at_least: bool
    first: str
    first_owner: str
    kept: tuple[NodeShare, ...] = ()
    awaited: tuple[str, ...] = ()
    starts_at: float | None = None
    evidence: str | None = None
