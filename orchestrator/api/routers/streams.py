"""Live streams of server-sent events: the one place of asynchronous code. They end when what they follow has ended.

A stream asks the database, not the reconciler: whatever is shown is stored, and a stream that is resumed with
``Last-Event-ID``, also on another server, goes on where it was cut. It looks when this process or the server that leads
has stored something, and from time to time, for what others may have. FastAPI adds a comment every 15 seconds of
silence.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from orchestrator.api.requests import Ctx
from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.api.views.run_data import event_view
from orchestrator.domain.runs.run import TERMINAL, Experiment, ExperimentState, Run
from orchestrator.domain.runs.stored import Change
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.news import News

# Least and greatest pause between two looks at the database without a word that there is news. It grows while nothing
# happens: a service that measures on the same machine must keep out of the way. Judgements.
POLL_S = (0.2, 5.0)
POLL_GROWTH = 2.0
BATCH = 500


class _Bell:
    """Rings when there is news. Lasts as long as one stream."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._pause_s = POLL_S[0]

    @classmethod
    @contextmanager
    def of(cls, news: News) -> "Iterator[_Bell]":
        bell, loop = cls(), asyncio.get_running_loop()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(bell._rung.set)

        with news.listening(ring):
            yield bell

    async def wait(self, quiet: bool) -> None:
        """Return when it has rung since the last time, or after a pause that grows while all is ``quiet``."""
        self._pause_s = min(self._pause_s * POLL_GROWTH, POLL_S[1]) if quiet else POLL_S[0]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), self._pause_s)
        self._rung.clear()


router = APIRouter(tags=["streams"])
_ABOUT = "id of the last event that arrived"
LastChange = Annotated[
    str | None, Header(alias="Last-Event-ID", description=_ABOUT, json_schema_extra={"pattern": "^([0-9]{1,18})?$"})
]
LastEntry = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description=_ABOUT, json_schema_extra={"pattern": "^([^:]+:.+:[0-9]{1,18})?$"}),
]


@fields_of(Change)
class ChangeView(View):
    """A change of state of an experiment (``run_id`` null) or of one of its runs."""

    at: Time


def _wrong_id(message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("header", "Last-Event-ID"), "msg": message, "type": "value"}])


def _experiment(context: Ctx, experiment_id: str, last_event_id: LastChange = None) -> tuple[Experiment, int]:
    after = last_event_id or "0"
    if not query.is_ordinal(after):
        raise _wrong_id(f"{after!r} is no id of this stream: they are numbers")
    found = query.experiment(context, experiment_id)
    if int(after) and not _is_a_change(context, found, int(after)):
        raise _wrong_id(f"{after} is no id that this stream has sent: leave the header out to begin at the start")
    return found, int(after)


def _is_a_change(context: Context, experiment: Experiment, number: int) -> bool:
    following = context.store.changes(experiment.id, after=number - 1, limit=1)
    return bool(following) and following[0].number == number


def _run(context: Ctx, run_id: str, last_event_id: LastEntry = None) -> tuple[Run, query.Position | None]:
    try:
        start = query.Position.parse(last_event_id) if last_event_id else None
    except ValueError as error:
        raise _wrong_id(str(error)) from None
    found = query.run(context, run_id)
    if start and not _is_stored(context, found, start):
        raise _wrong_id(f"{start} is no id that this stream has sent: leave the header out to begin at the start")
    return found, start


def _is_stored(context: Context, run: Run, place: query.Position) -> bool:
    """Whether the log of the run goes as far as ``place``: a stream that goes on behind its end would leave out all
    that comes before."""
    if place.attempt_id not in [attempt.id for attempt in run.attempts]:
        return False
    return place.seq <= context.store.last_seqs(place.attempt_id).get(place.node, -1)


@router.get("/experiments/{experiment_id}/events", response_class=EventSourceResponse)
async def stream_experiment(
    request: Request, context: Ctx, followed: Annotated[tuple[Experiment, int], Depends(_experiment)]
) -> AsyncIterator[ServerSentEvent]:
    """Changes of state of the experiment (event ``experiment``) and its runs (``run``), from the first one on; the id
    is the number of the change. An event ``waiting``, without an id, tells why nothing of the experiment runs. Ends
    with an event ``end``."""
    experiment, after = followed
    # The end of an experiment is a change like others, and its last one; a stream resumed behind it has the state.
    over = experiment.state is not ExperimentState.ACTIVE
    told = None
    with _Bell.of(context.news) as bell:
        while True:
            changes: Sequence[Change] = await _ask(context.store.changes, experiment.id, after=after, limit=BATCH)
            for change in changes:
                after = change.number
                over = over or (change.run_id is None and change.state != ExperimentState.ACTIVE)
                yield _change_event(change)
            if len(changes) == BATCH:
                continue
            if over or request.app.state.stopping():
                break
            reason = told if changes else await _ask(query.why_nothing_runs, context, experiment.id)
            if reason != told:
                told = reason
                yield ServerSentEvent(event="waiting", data={"experiment_id": experiment.id, "reason": reason})
            await bell.wait(quiet=not changes)
    if over:
        yield ServerSentEvent(event="end", data={"experiment_id": experiment.id})


@router.get("/runs/{run_id}/events", response_class=EventSourceResponse)
async def stream_run(
    request: Request, context: Ctx, followed: Annotated[tuple[Run, query.Position | None], Depends(_run)]
) -> AsyncIterator[ServerSentEvent]:
    """The entries of the run's logs as they are stored, attempt after attempt; the event is the kind of the entry and
    the id ``attempt:node:seq``. Events ``state``, without an id, tell the state of the run; ``thinned`` tells of an
    attempt whose readings were removed. Ends with an event ``end``.

    After a resumption, entries of the attempt's *other* nodes may come again: an id speaks of one node only.
    """
    run, start = followed
    positions = _Positions(start)
    state = None
    with context.news.following(run.id), _Bell.of(context.news) as bell:
        context.wake()  # the logs are brought more often from now on
        while True:
            quiet = True
            run = await _ask(context.store.run, run.id)
            if run.state is not state:
                state = run.state
                yield ServerSentEvent(event="state", data={"run_id": run.id, "state": state.value})
            async for event in positions.new_entries(context, run):
                quiet = False
                yield event
            if run.state in TERMINAL or request.app.state.stopping():
                break
            await bell.wait(quiet)
    if run.state in TERMINAL:
        yield ServerSentEvent(event="end", data={"run_id": run.id, "state": run.state.value})


class _Positions:
    """How far each log of each attempt was sent."""

    def __init__(self, start: query.Position | None) -> None:
        self._sent: dict[tuple[str, str], int] = {}
        self._told_thinned: set[str] = set()
        self._skip_before = start.attempt_id if start else None
        if start:
            self._sent[start.attempt_id, start.node] = start.seq

    async def new_entries(self, context: Context, run: Run) -> AsyncIterator[ServerSentEvent]:
        """What was stored since the last call, in the order of the attempts."""
        ids = [attempt.id for attempt in run.attempts]
        first = ids.index(self._skip_before) if self._skip_before in ids else 0
        for attempt_id, why in [(one.id, one.why_thinned) for one in run.attempts[first:]]:
            if why and attempt_id not in self._told_thinned:
                self._told_thinned.add(attempt_id)
                yield ServerSentEvent(event="thinned", data={"attempt_id": attempt_id, "reason": why})
            stored = await _ask(context.store.last_seqs, attempt_id)
            for node, last in sorted(stored.items()):
                async for event in self._of_log(context, attempt_id, node, last):
                    yield event

    async def _of_log(self, context: Context, attempt_id: str, node: str, last: int) -> AsyncIterator[ServerSentEvent]:
        while (after := self._sent.get((attempt_id, node), 0)) < last:
            entries = await _ask(context.store.entries, attempt_id, node=node, after=after, limit=BATCH)
            if not entries:
                return
            for entry in entries:
                self._sent[attempt_id, node] = entry["seq"]
                place = query.Position(attempt_id, node, entry["seq"])
                yield ServerSentEvent(event=entry["kind"], id=str(place), data=event_view(attempt_id, entry))


def _change_event(change: Change) -> ServerSentEvent:
    event = "run" if change.run_id else "experiment"
    return ServerSentEvent(event=event, id=str(change.number), data=ChangeView.of(change))


async def _ask(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the store without blocking the event loop; while the database is away the stream waits for it.

    Raises:
        NotFound: what was followed has been removed.
        DamagedRow: it cannot be read.
    """
    while True:
        try:
            return await run_in_threadpool(function, *args, **kwargs)
        except StoreUnavailable:
            await asyncio.sleep(1)
