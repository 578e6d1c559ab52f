"""What schedules do when their times come, late or not, over SQLite and PostgreSQL; clocks are set by hand."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.around.schedule import SET_BACK_S, FireState
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.filters import ExperimentFilter
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.words.errors import Conflict, InvalidRequest, NotAllowed
from orchestrator.services import tokens
from orchestrator.services.experiment.submit import submit
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule import schedules
from orchestrator.services.schedule.deadlines import Deadlines
from orchestrator.services.schedule.scheduler import POLL_S
from tests.support.schedule_rig import SPEC, WHO, Server, at

pytest_plugins = ["tests.contract.store_servers"]
ROOT = Path(__file__).resolve().parents[2]
ADA = Actor("ada", Scope.SUBMIT, "tok_1", "10.0.0.1")


@pytest.fixture
def server(url: str) -> Iterator[Server]:
    made = Server(url, "2026-11-20 12:00")
    yield made
    made.close()


def test_a_time_submits_an_experiment_of_the_owner_that_says_where_it_came_from(server: Server) -> None:
    schedule = server.add(by=ADA)
    assert server.look("2026-11-21 01:59:59") == pytest.approx(1.0)
    assert server.became(schedule) == []
    assert server.look("2026-11-21 02:00:00.5") == 0.0
    (fire,) = server.fires(schedule)
    assert (fire.at, fire.state, fire.experiment_state) == (at("2026-11-21 02:00"), FireState.SUBMITTED, "active")
    (experiment,) = server.store.experiments(ExperimentFilter(schedule=schedule.id)).items
    assert experiment.id == fire.experiment_id
    assert (experiment.owner, experiment.spec.name) == ("ada", "night")
    assert experiment.origin is not None
    assert (experiment.origin.schedule_id, experiment.origin.fire_id) == (schedule.id, fire.id)
    assert experiment.origin.fire_at == fire.at
    assert len(server.store.runs_of(experiment.id)) == 1
    (deed,) = server.store.deeds(target=experiment.id).items
    assert (deed.who, deed.action, deed.token_id, deed.address) == ("ada", "submit", None, "(schedule nightly)")
    assert server.look() == server.scheduler._poll_s  # and not again
    assert len(server.fires(schedule)) == 1


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"misfire": "skip"}, ["missed", "missed", "missed"]),
        ({"misfire": "one"}, ["missed", "missed", "submitted"]),
        ({"misfire": "one", "max_age_s": 3600}, ["missed", "missed", "missed"]),
        ({"misfire": "all", "overlap": "allow", "max_age_s": 7 * 86400}, ["submitted"] * 3),
        ({"misfire": "all", "overlap": "allow"}, ["missed", "missed", "submitted"]),
        ({"misfire": "all", "overlap": "queue", "max_age_s": 7 * 86400}, ["submitted", "waiting", "waiting"]),
        ({"misfire": "all", "overlap": "skip", "max_age_s": 7 * 86400}, ["submitted", "skipped", "skipped"]),
    ],
)
def test_after_three_nights_without_a_server_each_has_its_record(
    server: Server, rules: dict[str, object], expected: list[str]
) -> None:
    schedule = server.add(**rules)
    server.look("2026-11-23 09:00")
    assert server.became(schedule) == [(f"11-{21 + day} 02:00", state) for day, state in enumerate(expected)]
    for fire in server.fires(schedule):
        assert (fire.reason is None) == (fire.state is FireState.SUBMITTED)
    missed = [fire.reason for fire in server.fires(schedule) if fire.state is FireState.MISSED]
    assert all("no server looked until 2026-11-23T09:00:00Z" in str(reason) for reason in missed)
    server.look("2026-11-24 02:00")
    assert len(server.fires(schedule)) == 4


def test_a_restart_within_a_minute_is_no_outage(server: Server) -> None:
    schedule = server.add(misfire="skip")
    server.look("2026-11-21 02:00:59")
    assert server.became(schedule) == [("11-21 02:00", "submitted")]


def test_a_night_longer_than_its_period_is_skipped_over(server: Server) -> None:
    schedule = server.add(overlap="skip")
    server.look("2026-11-21 02:00")
    server.look("2026-11-22 02:00")
    first, second = server.fires(schedule)
    assert second.state is FireState.SKIPPED
    assert second.reason == f"{first.experiment_id} goes on; overlap is skip"
    server.end(first.experiment_id)
    server.look("2026-11-23 02:00")
    assert [state for _, state in server.became(schedule)] == ["submitted", "skipped", "submitted"]


def test_nights_that_are_longer_than_their_period_queue_up_in_order(server: Server) -> None:
    schedule = server.add(overlap="queue", max_age_s=30 * 86400)
    for day in (21, 22, 23):
        server.look(f"2026-11-{day} 02:00")
    assert [state for _, state in server.became(schedule)] == ["submitted", "waiting", "waiting"]
    first, second, _ = server.fires(schedule)
    assert second.reason == f"until {first.experiment_id} is over; overlap is queue"
    server.look("2026-11-23 03:00")
    assert [state for _, state in server.became(schedule)] == ["submitted", "waiting", "waiting"]
    server.end(first.experiment_id)
    server.look("2026-11-23 04:00")
    assert [state for _, state in server.became(schedule)] == ["submitted", "submitted", "waiting"]
    origin = server.store.experiment(str(server.fires(schedule)[1].experiment_id)).origin
    assert origin is not None
    assert origin.fire_at == at("2026-11-22 02:00")  # the night that it stands for
    server.end(server.fires(schedule)[1].experiment_id)
    server.look("2026-11-23 05:00")
    assert [state for _, state in server.became(schedule)] == ["submitted"] * 3


def test_the_queue_is_as_long_as_max_age(server: Server) -> None:
    schedule = server.add(overlap="queue", max_age_s=1.5 * 86400)
    for day in range(21, 27):
        server.look(f"2026-11-{day} 02:00")
    states = [state for _, state in server.became(schedule)]
    assert states == ["submitted", "missed", "missed", "missed", "waiting", "waiting"]
    assert "waited 172800 s for its turn" in str(server.fires(schedule)[1].reason)


def test_overlapping_nights_that_are_allowed_run_beside_each_other(server: Server) -> None:
    schedule = server.add(overlap="allow")
    for day in (21, 22):
        server.look(f"2026-11-{day} 02:00")
    assert len(server.store.active_of_schedule(schedule.id)) == 2


def test_a_spec_that_no_longer_fits_the_suite_is_refused_and_on_record(server: Server) -> None:
    schedule = server.add()
    server.catalog.models.clear()  # type: ignore[attr-defined]
    server.look("2026-11-21 02:00")
    (fire,) = server.fires(schedule)
    assert fire.state is FireState.REFUSED
    assert "the spec is refused: /model" in str(fire.reason)
    assert fire.experiment_id is None
    with pytest.raises(InvalidRequest, match="/model"):
        schedules.run_now(server.context, schedule.id, WHO)
    assert len(server.fires(schedule)) == 1


def test_an_owner_whose_tokens_were_all_revoked_submits_nothing(server: Server) -> None:
    one, _ = tokens.add(server.store, server.clock, {"name": "ada", "expires_days": 1}, WHO)
    schedule = server.add(by=ADA, overlap="allow")
    server.look("2026-11-22 02:00")  # its token has expired: ada may forget, nights go on
    tokens.revoke(server.store, server.clock, one.id, WHO)
    server.look("2026-11-23 02:00")
    tokens.add(server.store, server.clock, {"name": "ada-2", "owner": "ada"}, WHO)
    server.look("2026-11-24 02:00")
    assert [state for _, state in server.became(schedule)] == ["missed", "submitted", "refused", "submitted"]
    assert "every token by which ada may submit has been revoked" in str(server.fires(schedule)[2].reason)


def test_while_no_node_can_be_reached_a_time_is_held_and_then_late(server: Server) -> None:
    """What ``auto`` stands for would be decided without a single device."""
    schedule = server.add(misfire="skip", overlap="allow")
    server.cluster.state = NodeState.UNREACHABLE
    assert 0 < server.look("2026-11-21 02:00") <= 5.0
    assert server.became(schedule) == []
    server.cluster.state = NodeState.AVAILABLE
    server.look("2026-11-21 02:00:30")
    server.cluster.state = NodeState.UNREACHABLE
    server.look("2026-11-22 02:00")
    server.cluster.state = NodeState.AVAILABLE
    server.look("2026-11-22 02:30")
    assert [state for _, state in server.became(schedule)] == ["submitted", "missed"]
    assert "no node can be reached until 2026-11-22T02:30:00Z" in str(server.fires(schedule)[1].reason)


def test_a_clock_that_jumps_forward_is_like_an_outage(server: Server) -> None:
    schedule = server.add(misfire="one")
    server.look("2026-11-21 02:00")
    server.end(server.fires(schedule)[0].experiment_id)
    server.look("2026-11-25 02:00:10")
    assert [state for _, state in server.became(schedule)] == ["submitted", "missed", "missed", "missed", "submitted"]


def test_a_clock_that_was_wrong_and_is_set_back_costs_no_night_and_doubles_none(server: Server) -> None:
    schedule = server.add(misfire="one", overlap="allow")
    server.look("2026-11-21 02:00")
    server.look("2027-11-20 02:00:10")  # a year ahead: the nights until then are missed, the last one is submitted
    assert Counter(state for _, state in server.became(schedule)) == {"submitted": 2, "missed": 363}
    server.look("2026-11-21 12:00")  # set right
    assert server.look() == server.scheduler._poll_s
    assert [state for _, state in server.became(schedule)] == ["submitted", "submitted"]
    for day in range(22, 27):
        server.look(f"2026-11-{day} 02:00")
    assert [state for _, state in server.became(schedule)] == ["submitted"] * 7
    server.look("2027-11-19 02:00")
    server.look("2027-11-20 02:00")  # which was submitted before its time
    assert len(server.store.experiments(ExperimentFilter(schedule=schedule.id), limit=1000).items) == 8


def test_a_clock_that_goes_back_a_little_fires_nothing_twice(server: Server) -> None:
    schedule = server.add("* * * * *", overlap="allow")
    server.look("2026-11-20 12:05:01")
    before = server.became(schedule)
    for second in range(0, int(SET_BACK_S), 20):
        server.look(at("2026-11-20 12:00:02") + second)
    assert server.became(schedule) == before


def test_a_clock_beyond_all_reason_does_not_hold_the_service_up(server: Server) -> None:
    schedule = server.add("* * * * *", misfire="skip")
    server.look("9998-01-01 00:00")
    fires = server.fires(schedule)
    assert len(fires) <= 1002
    assert fires[0].n_times == 100_000
    assert "share this record" in str(fires[0].reason)
    assert "or more" in str(fires[0].reason)
    assert server.look() == server.scheduler._poll_s  # nothing is left to be considered
    server.look("2026-11-20 12:03:30")  # set right: what was given up meanwhile is considered anew
    server.look()
    assert [state for _, state in server.became(schedule)] == ["missed", "missed", "submitted"]


def test_many_times_that_were_missed_share_a_record_but_for_the_newest(server: Server) -> None:
    schedule = server.add("* * * * *", misfire="skip")
    server.look("2026-11-21 12:00:10")
    fires = server.fires(schedule)
    assert sum(fire.n_times for fire in fires) == 1440
    assert (len(fires), fires[0].n_times) == (1001, 440)
    assert [fires[0].at, fires[1].at, fires[-1].at] == [
        at("2026-11-20 12:01"),
        at("2026-11-20 19:21"),
        at("2026-11-21 12:00"),
    ]


def test_jitter_puts_off_the_same_on_every_server_and_never_beyond_the_next_time(server: Server, url: str) -> None:
    schedule = server.add("*/10 * * * *", jitter_s=3600, overlap="allow", misfire="all")
    other = Server(url, "2026-11-20 12:00")
    seen = []
    for minute in range(1, 121):
        turn = server if minute % 2 else other
        turn.look(at("2026-11-20 12:00") + minute * 60)
    for fire in server.fires(schedule):
        assert 0 <= fire.due_at - fire.at < 600
        assert fire.due_at <= fire.created_at <= fire.due_at + 60
        seen.append(fire.due_at - fire.at)
    assert len(seen) in (11, 12)
    assert len({round(one) for one in seen}) > 8
    assert server.store.schedule(schedule.id).due_at == other.store.schedule(schedule.id).due_at
    other.close()


def test_a_pause_is_on_record_and_its_times_are_not_made_up_for(server: Server) -> None:
    schedule = server.add(misfire="all", overlap="allow")
    assert schedules.change(server.context, schedule.id, {"paused": True}, WHO).paused
    server.look("2026-11-22 12:00")
    server.clock.time = at("2026-11-23 12:00")  # a night that nobody looked after
    schedules.change(server.context, schedule.id, {"paused": False}, WHO)
    server.look("2026-11-24 02:00")
    paused = [(f"11-{day} 02:00", "skipped") for day in (21, 22, 23)]
    assert server.became(schedule) == [*paused, ("11-24 02:00", "submitted")]
    assert server.fires(schedule)[0].reason == "the schedule is paused"


def test_another_cron_holds_from_now_on(server: Server) -> None:
    schedule = server.add()
    server.clock.time = at("2026-11-21 01:00")
    schedules.change(server.context, schedule.id, {"cron": "0 5 * * *", "timezone": "Europe/Berlin"}, WHO)
    server.look("2026-11-21 02:00")
    server.look("2026-11-21 04:00")
    assert server.became(schedule) == [("11-21 04:00", "submitted")]


def test_a_change_makes_no_time_vanish_that_was_put_off_by_its_jitter(server: Server) -> None:
    schedule = server.add(jitter_s=3600, overlap="allow")
    server.look("2026-11-21 02:00")
    due = server.store.schedule(schedule.id).due_at
    assert due is not None
    assert due > at("2026-11-21 02:00")
    schedules.change(server.context, schedule.id, {"cron": "0 5 * * *"}, WHO)
    server.look("2026-11-21 04:00")
    server.look("2026-11-21 06:00")
    assert server.became(schedule) == [("11-21 02:00", "skipped"), ("11-21 05:00", "submitted")]
    assert "was changed at 2026-11-21T02:00:00Z" in str(server.fires(schedule)[0].reason)


def test_run_now_runs_beside_all_rules_as_the_owner(server: Server) -> None:
    schedule = server.add(by=ADA, paused=True)
    root, bob = Actor("root", Scope.ADMIN), Actor("bob", Scope.SUBMIT)
    with pytest.raises(NotAllowed, match="ada's"):
        schedules.run_now(server.context, schedule.id, bob)
    one, new = schedules.run_now(server.context, schedule.id, root, "key")
    again, repeated = schedules.run_now(server.context, schedule.id, root, "key")
    assert (new, repeated) == (True, False)
    assert again == one
    assert (one.trigger, one.state, one.at) == ("manual", FireState.SUBMITTED, at("2026-11-20 12:00"))
    assert server.store.experiment(str(one.experiment_id)).owner == "ada"
    (deed,) = server.store.deeds(target=str(one.experiment_id)).items
    assert (deed.who, deed.action) == ("root", "schedule run")
    server.clock.time += 0.001
    schedules.run_now(server.context, schedule.id, ADA)
    assert len(server.fires(schedule)) == 2


def test_two_servers_of_one_database_fire_each_time_once(url: str) -> None:
    """Threads, each with a store of its own, that look at the same moments."""
    servers = [Server(url, "2026-11-20 12:00") for _ in range(2)]
    made = [servers[0].add("*/5 * * * *", name=f"s{number}", overlap="allow") for number in range(5)]
    for minute in range(5, 61, 5):
        gate = threading.Barrier(2)

        def look(server: Server, now: float, gate: threading.Barrier) -> None:
            server.clock.time = now
            gate.wait()
            server.look()

        now = at("2026-11-20 12:00") + minute * 60
        looks = [threading.Thread(target=look, args=(server, now, gate)) for server in servers]
        for thread in looks:
            thread.start()
        for thread in looks:
            thread.join()
    for schedule in made:
        assert [state for _, state in servers[0].became(schedule)] == ["submitted"] * 12
        assert len(servers[1].store.experiments(ExperimentFilter(schedule=schedule.id)).items) == 12
    for server in servers:
        server.close()


def test_two_processes_on_one_database_catch_up_without_doubling_a_time(url: str) -> None:
    server = Server(url, "2026-11-20 12:00")
    rules = {"overlap": "allow", "misfire": "all", "max_age_s": 30 * 86400}
    made = [server.add("0 */2 * * *", name=f"s{number}", **rules) for number in range(5)]
    command = [sys.executable, "-m", "tests.support.scheduler_process", url, str(at("2026-11-22 12:00"))]
    both = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.communicate("go\n", timeout=60)
        assert process.returncode == 0
    for schedule in made:
        assert [state for _, state in server.became(schedule)] == ["submitted"] * 24
        experiments = server.store.experiments(ExperimentFilter(schedule=schedule.id)).items
        assert sorted(one.id for one in experiments) == sorted(str(f.experiment_id) for f in server.fires(schedule))
    server.close()


def test_a_schedule_that_is_changed_while_it_is_settled_is_looked_at_anew(server: Server) -> None:
    schedule = server.add()
    seen = server.store.schedule(schedule.id)
    schedules.change(server.context, schedule.id, {"max_age_s": 60}, WHO)
    assert not server.store.settle(seen, at("2026-11-21 02:00"), None, [])
    assert server.store.schedule(schedule.id).due_at == at("2026-11-21 02:00")
    assert not server.store.change_schedule(replace(seen, name="other"), tokens.deed_of(WHO, 0.0, "x", "y"))


def test_a_zone_that_this_host_does_not_know_is_held_and_others_go_on(server: Server) -> None:
    odd = server.add(name="odd", timezone="Europe/Berlin")
    plain = server.add(name="plain")
    seen = server.store.schedule(odd.id)
    server.store.change_schedule(replace(seen, timezone="Mars/Olympus"), tokens.deed_of(WHO, 0.0, "x", "y"))
    server.look("2026-11-21 02:00")
    assert (server.became(odd), server.became(plain)) == ([], [("11-21 02:00", "submitted")])
    assert schedules.upcoming(server.store.schedule(odd.id), 0.0) == []
    with pytest.raises(Conflict, match="Mars/Olympus"):
        schedules.change(server.context, odd.id, {"cron": "@daily"}, WHO)
    schedules.change(server.context, odd.id, {"timezone": "UTC"}, WHO)
    server.look("2026-11-22 02:00")
    assert server.became(odd) == [("11-22 02:00", "submitted")]


def test_the_stored_spec_has_its_defaults_and_what_is_wrong_with_it_is_pointed_at(server: Server) -> None:
    assert server.add().spec["max_repeats"] == 10
    with pytest.raises(InvalidRequest, match="/spec/model"):
        server.add(name="other", spec=SPEC | {"model": "nett"})
    with pytest.raises(InvalidRequest, match="/spec/per_device_batch_size"):
        server.add(name="other", spec={"name": "a", "model": "net", "framework": "pytorch"})


def test_what_is_left_of_an_experiment_at_its_deadline_is_cancelled(server: Server) -> None:
    now = server.clock.time
    context = replace(server.context, deadline_s=60.0)
    own = [{"deadline_s": 9.0}, {}, {"deadline_s": 5.0}]
    asked = [submit(context, SPEC | {"name": f"night-{at}"} | one, by=WHO)[0] for at, one in enumerate(own)]
    assert [server.store.experiment(one.id).deadline_at for one in asked] == [now + 9.0, now + 60.0, now + 5.0]
    over = asked[2].id
    (run,) = server.store.runs_of(over)
    server.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=now)
    server.store.end_experiment(over, ExperimentState.CANCELLED, now)
    deadlines = Deadlines(context, Bell())
    assert deadlines.look() == pytest.approx(9.0)
    server.clock.time = now + 9.0
    assert [deadlines.look(), deadlines.look()] == [POLL_S, POLL_S]
    assert [server.store.experiment(one.id).cancel_requested for one in asked] == [True, False, False]
    assert [one.who for one in server.store.deeds(target=asked[0].id).items] == ["deadline", "local"]
