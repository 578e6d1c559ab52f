"""What the nightly board shows, over SQLite and PostgreSQL: numbers, failures, and all the bad luck of schedules."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.around.schedule import Schedule
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.schedule import schedules
from orchestrator.services.schedule.board import Board, Field, board, boards
from tests.support.schedule_rig import MOSTLY_SQLITE, SPEC, WHO, Server, at
from tests.unit import builders
from tests.unit.api.api_rig import fingerprint_of, rate

pytest_plugins = ["tests.contract.store_servers"]
pytestmark = MOSTLY_SQLITE
TWICE = SPEC | {"repeats": 2}
DOWN = Failure(FailureKind.TIMED_OUT, "longer than timeout_s: 3600")


@pytest.fixture
def server(url: str) -> Iterator[Server]:
    made = Server(url, "2026-11-01 12:00")
    yield made
    made.close()


def finish(server: Server, run_id: str, analysis: Analysis, **more: Any) -> None:
    store = server.store
    assert store.begin_attempt(run_id, builders.attempt(run_id, created_at=1.0))
    for before, after in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run_id, before, after, at=2.0)
    ended = {"to": RunState.COMPLETED, "at": 3.0, "fingerprint": fingerprint_of()} | more
    assert store.conclude(run_id, analysis=analysis, **ended)


def night(server: Server, day: int, rates: Sequence[float | Analysis], **more: Any) -> str:
    """Have the time of that day come, and its runs end with these rates; its experiment."""
    server.look(f"2026-11-{day:02} 02:00")
    (schedule,) = server.store.schedules().items
    (newest,) = [str(one.experiment_id) for one in server.fires(schedule) if one.at == server.clock.time]
    for run, one in zip(server.store.runs_of(newest), rates, strict=True):
        finish(server, run.id, one if isinstance(one, Analysis) else rate(one), **more)
    failed = more.get("to") is RunState.FAILED
    assert server.store.end_experiment(newest, ExperimentState.FAILED if failed else ExperimentState.COMPLETED, 4.0)
    return newest


def usual(server: Server, days: Sequence[int]) -> None:
    for day in days:
        night(server, day, [99.0 + 0.1 * day, 101.0])


def shown(server: Server, schedule: Schedule, **more: Any) -> Board:
    return board(server.context, server.store.schedule(schedule.id), **more)


def words(found: Board) -> list[str]:
    """The only cell of a board, a word a night."""
    (line,) = found.lines
    return [f"{one.colour} {one.code}" for one in line.fields]


def last(found: Board) -> Field:
    return found.lines[0].fields[-1]


@pytest.mark.after_change
def test_two_slow_nights_are_amber_and_name_what_changed_with_the_first(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    usual(server, range(2, 10))
    night(server, 10, [69.0, 71.0], fingerprint=fingerprint_of(framework_version="2.14"))
    assert words(shown(server, schedule)) == [*["green no_baseline"] * 7, *["green not_slower"] * 2]
    night(server, 11, [69.0, 71.0], fingerprint=fingerprint_of(framework_version="2.14"))
    assert words(shown(server, schedule))[-3:] == ["green not_slower", *["amber suspect"] * 2]
    for day in (12, 13):
        night(server, day, [99.0, 101.0])
    found = shown(server, schedule)
    assert words(found)[-5:] == ["green not_slower", *["amber suspect"] * 2, *["green not_slower"] * 2]
    slow, again, fast = found.lines[0].fields[-4:-1]
    assert "looks slower: -3" in str(slow.reason)
    assert "since 2026-11-10T02:00:00Z; unconfirmed" in str(slow.reason)
    assert [(one.field, one.baseline, one.candidate) for one in slow.changes] == [("framework_version", "2.13", "2.14")]
    assert again.changes == slow.changes
    assert not fast.changes
    assert slow.throughput is not None
    assert slow.difference is not None
    assert slow.difference.value == pytest.approx(-0.30, abs=0.01)
    assert shown(server, schedule, nights=2).lines[0].fields == found.lines[0].fields[-2:]


def test_failed_broken_cancelled_and_running_nights_say_so(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    night(server, 2, [builders.analysis(failure=DOWN)] * 2, to=RunState.FAILED, failure=DOWN)
    night(server, 3, [rate(100.0), rate(100.0, builders.REPLICAS_DIFFER)])
    server.look("2026-11-04 02:00")
    cancelled = str(server.fires(schedule)[-1].experiment_id)
    server.store.cancel_experiment(cancelled, at=4.0)
    for run in server.store.runs_of(cancelled):
        assert server.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=4.0)
    assert server.store.end_experiment(cancelled, ExperimentState.CANCELLED, 4.0)
    removed = night(server, 5, [100.0, 100.0])
    server.store.remove_experiment(removed)
    night(server, 6, [Analysis(rate(1.0).validity)] * 2)
    server.look("2026-11-07 02:00")
    found = shown(server, schedule)
    expected = ["red failed", "invalid broken", "missing cancelled", "missing removed", "invalid no_number"]
    assert words(found) == [*expected, "running running"]
    reasons = [str(one.reason) for one in found.lines[0].fields]
    assert reasons[0] == "2 of 2 runs failed: timed_out: longer than timeout_s: 3600"
    assert reasons[1] == "1 of 2 runs are broken: replicas_differ: the weights of the ranks differ"
    assert reasons[2] == "2 of 2 runs were cancelled"
    assert "tbd rm" in reasons[3]
    assert reasons[5] == "0 of 2 runs have ended"
    server.store.pause_experiment(str(server.fires(schedule)[-1].experiment_id), True, 5.0)
    assert "paused (tbd resume)" in str(last(shown(server, schedule)).reason)


def test_nights_without_a_server_are_missing_before_and_after_it_is_back(server: Server) -> None:
    schedule = server.add(spec=TWICE, misfire="skip")
    usual(server, range(2, 6))
    server.clock.time = at("2026-11-08 09:00")  # nobody has looked since the 5th
    found = shown(server, schedule)
    assert words(found)[4:] == ["missing unseen"] * 3
    assert "no server has looked after it yet" in str(last(found).reason)
    server.look()
    found = shown(server, schedule)
    assert words(found)[4:] == ["missing missed"] * 3
    assert "no server looked until 2026-11-08T09:00:00Z" in str(last(found).reason)
    for day in (9, 10, 11, 12):
        night(server, day, [69.0, 71.0])
    assert last(shown(server, schedule)).code == "suspect"  # the nights before the outage are its baseline


def test_a_time_that_is_due_just_now_is_not_called_missing(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    server.clock.time = at("2026-11-02 02:00:30")
    assert shown(server, schedule).nights == []
    server.clock.time = at("2026-11-02 02:01:01")
    assert [one.state for one in shown(server, schedule).nights] == ["unseen"]


def test_a_night_longer_than_its_period_runs_and_the_next_one_is_missing(server: Server) -> None:
    schedule = server.add(spec=TWICE, overlap="skip")
    server.look("2026-11-02 02:00")
    server.look("2026-11-03 02:00")
    found = shown(server, schedule)
    assert words(found) == ["running running", "missing skipped"]
    assert "goes on; overlap is skip" in str(last(found).reason)


def test_a_night_that_waits_for_another_is_missing_until_it_begins(server: Server) -> None:
    schedule = server.add(spec=TWICE, overlap="queue")
    server.look("2026-11-02 02:00")
    server.look("2026-11-03 02:00")
    found = shown(server, schedule)
    assert words(found) == ["running running", "missing waiting"]
    assert "overlap is queue" in str(last(found).reason)


def test_a_spec_that_no_longer_fits_makes_nights_missing_with_that_as_the_reason(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    usual(server, [2])
    server.catalog.models.clear()  # type: ignore[attr-defined]
    server.look("2026-11-03 02:00")
    found = shown(server, schedule)
    assert words(found) == ["green no_baseline", "missing refused"]
    assert "the spec is refused: /model" in str(last(found).reason)


def test_a_clock_that_was_a_year_ahead_leaves_one_night_there_and_no_gap_here(server: Server) -> None:
    schedule = server.add(spec=TWICE, overlap="allow")
    usual(server, [2])
    server.look("2027-11-20 02:00:10")
    assert [one.state for one in shown(server, schedule).nights] == [*["missed"] * 13, "submitted"]
    server.look("2026-11-02 12:00")  # set right
    usual(server, [3, 4])
    states = [(one.state, f"{one.at:.0f}") for one in shown(server, schedule).nights]
    wanted = ("2026-11-02", "2026-11-03", "2026-11-04", "2027-11-20")
    assert states == [("submitted", f"{at(f'{day} 02:00'):.0f}") for day in wanted]


def test_a_schedule_that_never_got_to_run_shows_its_nights_without_cells(server: Server) -> None:
    server.add("*/2 * * * *", spec=TWICE, misfire="skip")
    server.look("2026-11-02 12:01:30")
    (found,) = boards(server.context, "nightly", nights=60).items
    assert found.lines == []
    assert [one.state for one in found.nights] == ["missed"] * 60


def test_two_servers_of_one_database_show_one_board_with_each_night_once(server: Server, url: str) -> None:
    schedule = server.add(spec=TWICE)
    other = Server(url, "2026-11-01 12:00")
    for day in range(2, 6):
        first, second = (server, other) if day % 2 else (other, server)
        night(first, day, [99.0 + day / 10, 101.0])
        second.look(f"2026-11-{day:02} 02:00:03")
    assert words(shown(server, schedule)) == words(shown(other, schedule))
    assert len(shown(other, schedule).nights) == 4
    assert shown(server, schedule).nights == shown(other, schedule).nights
    other.close()


def test_a_cell_that_comes_and_one_that_goes_have_a_line_each(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    usual(server, [2, 3])
    schedules.change(server.context, schedule.id, {"spec": TWICE | {"per_device_batch_size": [4, 8]}}, WHO)
    night(server, 4, [100.0] * 4)
    schedules.change(server.context, schedule.id, {"spec": TWICE | {"per_device_batch_size": 8}}, WHO)
    night(server, 5, [100.0] * 2)
    found = {
        line.plan.per_device_batch_size: [one.code for one in line.fields] for line in shown(server, schedule).lines
    }
    assert found == {4: [*["no_baseline"] * 3, "no_such_cell"], 8: [*["no_such_cell"] * 2, *["no_baseline"] * 2]}


def test_another_interpreter_is_a_change_of_one_line_and_not_another_line(server: Server) -> None:
    """``auto`` stands for the newest one, so it changes by itself."""
    schedule = server.add(spec=TWICE)
    usual(server, range(2, 9))
    strategies: Any = server.catalog.frameworks["pytorch"].strategies
    strategies["single"] = replace(strategies["single"], interpreter="pytorch-next")
    for day in (9, 10):
        night(server, day, [69.0, 71.0], fingerprint=fingerprint_of(interpreter="pytorch-next"))
    found = shown(server, schedule)
    assert words(found)[-1] == "amber suspect"
    assert [(one.field, one.candidate) for one in last(found).changes] == [("interpreter", "pytorch-next")]


def test_another_machine_is_no_slowdown_and_another_kernel_coincides_with_one(server: Server) -> None:
    schedule = server.add(spec=TWICE)
    there: Any = fingerprint_of() | {"rig_key": "there", "rig": {"nodes": {"n1": {"kernel": "6"}}}}
    usual(server, range(2, 10))
    for day in (10, 11):
        night(server, day, [69.0, 71.0], fingerprint=there)
    field = last(shown(server, schedule))
    assert (field.colour, field.code) == ("green", "no_baseline")
    assert "8 nights on the same devices" in field.notes[0]
    newer = fingerprint_of() | {"rig_key": "r2", "rig": {"nodes": {}, "kernel": "7"}}
    for day in (12, 13):
        night(server, day, [69.0, 71.0], fingerprint=newer)
    field = last(shown(server, schedule))
    assert (field.colour, field.code) == ("amber", "suspect")
    assert [one.part for one in field.changes] == ["rig"]


def test_all_boards_page_by_page_and_one_by_name_or_id(server: Server) -> None:
    ada = Actor("ada", Scope.SUBMIT, "tok_1", "10.0.0.1")
    made = [server.add(name="one", spec=TWICE), server.add(name="two", spec=TWICE, by=ada)]
    page = boards(server.context, limit=1)
    (second,) = boards(server.context, limit=1, cursor=page.next_cursor).items
    assert {page.items[0].schedule.name, second.schedule.name} == {"one", "two"}
    assert [one.schedule.name for one in boards(server.context, owner="ada").items] == ["two"]
    for text in ("one", made[0].id):
        (found,) = boards(server.context, text).items
        assert replace(found.schedule, due_at=None) == replace(made[0], due_at=None)
    with pytest.raises(NotFound):
        boards(server.context, "three")
