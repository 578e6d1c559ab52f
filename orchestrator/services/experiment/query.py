"""Look things up: experiments, runs, and the entries of a run's logs page by page. Everybody may look at everything."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.domain.around.access import HIDDEN, Actor
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.log import Entry
from orchestrator.domain.runs.run import HOLDS_DEVICES, Attempt, Experiment, Run, RunState
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import Damaged, InvalidRequest, NotFound, Problem
from orchestrator.services.context import Context

MOST_DIGITS = 18  # of the numbers that every database holds, those of 64 bits


def experiment(context: Context, experiment_id: str) -> Experiment:
    """The experiment.

    Raises:
        NotFound: there is none, or it is half imported or half removed.
    """
    found = context.store.experiment(experiment_id)
    if found.owner in HIDDEN:
        raise NotFound("experiment", experiment_id)
    return found


def owner_of(context: Context, experiment_id: str) -> str:
    """Whose experiment it is, also of one that cannot be read. Raises as ``experiment``."""
    owner = context.store.owner_of(experiment_id)
    if owner in HIDDEN:
        raise NotFound("experiment", experiment_id)
    return owner


def check_may_change(context: Context, experiment_id: str, by: Actor) -> None:
    """Refuse what only the owner of an experiment, or an admin, may do with it.

    Raises:
        NotFound: as ``experiment``.
        NotAllowed: it is somebody else's.
    """
    by.check_may_change(experiment_id, owner_of(context, experiment_id))


def why_nothing_runs(context: Context, experiment_id: str) -> str | None:
    """Why the first queued run of the experiment waits; None while any of its runs is carried out."""
    counts = context.store.experiment(experiment_id).run_counts
    if any(counts.get(state) for state in HOLDS_DEVICES) or not counts.get(RunState.QUEUED):
        return None
    page = context.store.runs(RunFilter(experiment_id=experiment_id, state=RunState.QUEUED), limit=1)
    return page.items[0].waiting if page.items else None


def run(context: Context, run_id: str) -> Run:
    """The run.

    Raises:
        NotFound: there is none, or its experiment is half imported or half removed.
    """
    found = context.store.run(run_id)
    if context.store.owner_of(found.experiment_id) in HIDDEN:
        raise NotFound("run", run_id)
    return found


def attempt_of(found: Run, number: int | None) -> Attempt | None:
    """The attempt ``number`` (1 ..) of a run, or its latest; None where it has none yet.

    Raises:
        NotFound: it has no attempt of that number.
    """
    if number is None:
        return found.attempt
    for attempt in found.attempts:
        if attempt.number == number:
            return attempt
    raise NotFound(f"attempt of run {found.id}", str(number))


def is_ordinal(text: str) -> bool:
    """Whether it is a whole number, 0 or more, as a database can hold it."""
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


@dataclass(frozen=True)
class Position:
    """A place in the logs of an attempt: all of the nodes before ``node`` in order of name, and its entries to ``seq``.

    Written ``attempt:node:seq``; names of nodes may hold colons.
    """

    attempt_id: str
    node: str
    seq: int

    def __str__(self) -> str:
        return f"{self.attempt_id}:{self.node}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read what ``str`` wrote.

        Raises:
            ValueError: it is no position.
        """
        attempt_id, _, rest = text.partition(":")
        node, _, seq = rest.rpartition(":")
        if not attempt_id or not node or not is_ordinal(seq):
            raise ValueError(f"{text!r} is no place in a log: they look like attempt:node:seq")
        return cls(attempt_id, node, int(seq))


def entries(
    context: Context, attempt: Attempt | None, kinds: Sequence[str], *, limit: int, cursor: str | None
) -> Page[Entry]:
    """A page of the entries of some ``kinds``, node by node in order of name, each in the order of its log.

    Raises:
        InvalidRequest: the cursor is not one of ours, or of another attempt.
    """
    if attempt is None:
        return Page([])
    start = _start(attempt, cursor)
    found: list[Entry] = []
    for node in sorted(context.store.last_seqs(attempt.id)):
        if start and node < start.node:
            continue
        after = start.seq if start and node == start.node else 0
        rest = limit + 1 - len(found)
        found += context.store.entries(attempt.id, node=node, kinds=kinds, after=after, limit=rest)
        if len(found) > limit:
            last = found[limit - 1]
            return Page(found[:limit], str(Position(attempt.id, last["node"], last["seq"])))
    return Page(found)


def _start(attempt: Attempt, cursor: str | None) -> Position | None:
    if cursor is None:
        return None
    try:
        start = Position.parse(cursor)
    except ValueError:
        start = None
    if start is None or start.attempt_id != attempt.id:
        raise InvalidRequest([Problem("/cursor", f"{cursor!r} is no cursor of this list")])
    return start


@dataclass(frozen=True)
class Output:
    """A piece of what a process printed. ``offset`` is its place in that stream of that process, in bytes."""

    node: str
    process: str
    ranks: tuple[int, ...]
    stream: str
    offset: int
    text: str


def output(
    context: Context,
    attempt: Attempt | None,
    *,
    rank: int | None,
    stream: str | None,
    offset: int,
    limit: int,
    cursor: str | None,
) -> Page[Output]:
    """A page of what the processes printed, without what lies before byte ``offset`` of each of their streams.

    Raises:
        InvalidRequest: the cursor is not one of ours.
    """
    page = entries(context, attempt, ("output",), limit=limit, cursor=cursor)
    ranks = _ranks_by_process(context, attempt)
    wanted: list[Output] = []
    damaged: list[Damaged] = []
    for entry in page.items:
        try:
            piece = _from_offset(_piece(entry, ranks), offset)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            place = f"{attempt.id if attempt else ''}:{entry['node']}:{entry['seq']}"
            damaged.append(Damaged("entry", place, None, f"{type(error).__name__}: {error}"))
            continue
        if piece and _is_asked_for(piece, rank, stream):
            wanted.append(piece)
    return Page(wanted, page.next_cursor, damaged)


def _ranks_by_process(context: Context, attempt: Attempt | None) -> dict[str, tuple[int, ...]]:
    if attempt is None:
        return {}
    opened = context.store.entries(attempt.id, kinds=("log_opened",))
    try:
        processes = [process for entry in opened for process in entry["data"]["job"].get("processes") or ()]
        return {str(process["name"]): tuple(process.get("ranks") or ()) for process in processes}
    except (KeyError, TypeError, AttributeError):  # of an older version's log: nobody can tell who drove which rank
        return {}


def _piece(entry: Entry, ranks: dict[str, tuple[int, ...]]) -> Output:
    data = entry["data"]
    process = str(data["process"])
    # A process of a profile is called ``worker0:memory``: it drives the ranks of worker0.
    own = ranks.get(process.partition(":")[0], ())
    return Output(entry["node"], process, own, str(data["stream"]), int(data["offset"]), str(data["text"]))


def _from_offset(piece: Output, offset: int) -> Output | None:
    skipped = offset - piece.offset
    if skipped <= 0:
        return piece
    rest = piece.text.encode()[skipped:].decode(errors="replace")
    return Output(piece.node, piece.process, piece.ranks, piece.stream, offset, rest) if rest else None


def _is_asked_for(piece: Output, rank: int | None, stream: str | None) -> bool:
    return (rank is None or rank in piece.ranks) and stream in (None, piece.stream)
