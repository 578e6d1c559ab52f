"""The regression gate over SQLite and PostgreSQL: nights of a schedule, what it tries of them, and what that tells. The
runs' numbers are set here; a confirmation that is really carried out: ``make gate-demo``."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.api.views.alerts import alert_view
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.around.alerts import GATE, Alert, AlertState
from orchestrator.domain.asked.placement import Device, Node, NodeState
from orchestrator.domain.asked.plan import SIDE
from orchestrator.domain.runs.run import ExperimentState, Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.value.profile import Kernel, KernelTable, Profiles
from orchestrator.domain.words.errors import Conflict, NotAllowed
from orchestrator.services.experiment import cancel, extend
from orchestrator.services.gate.equal_arms import _drawn, false_alarms
from orchestrator.services.gate.gatekeeper import Gatekeeper
from orchestrator.services.gate.trials import PATIENCE_S, PRIORITY, equal_arms, occupied_s
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.reconcile.review import review
from orchestrator.services.schedule import schedules
from orchestrator.services.schedule.acknowledge import acknowledge
from orchestrator.services.schedule.board import Column, Field, board
from tests.contract.test_nightly import TWICE, finish
from tests.contract.test_store_webhooks import a_webhook, deed
from tests.support.schedule_rig import MOSTLY_SQLITE, WHO, Server
from tests.unit.api.api_rig import fingerprint_of, rate
from tests.unit.builders import node

pytest_plugins = ["tests.contract.store_servers"]
pytestmark = MOSTLY_SQLITE
RUN_S = 20.0


def of(version: str, **rig: Any) -> dict[str, Any]:
    """The fingerprint of a night with the environment of that hash."""
    told = fingerprint_of(interpreter="pytorch", interpreter_definition=version, framework_version=version)
    return told | {"subject_key": version, "rig_key": repr(rig), "rig": {"nodes": {"n0": rig}, "device_ids": ["cpu:0"]}}


def profiled(run: Run, analysis: Analysis, level: float) -> Analysis:
    """Of a run that was to be profiled two operators: one takes 1 ms, the other what is left of a step at ``level``."""
    if not run.plan.profile:
        return analysis
    noise = 1e-5 * math.sin(7.0 * run.plan.repetition + level)
    seconds = {"convolution": 1e-3 - noise, "norm": 1.0 / level - 1e-3 + noise}
    rows = tuple(Kernel(name, "other", 1, each, 0.5) for name, each in seconds.items())
    return replace(analysis, profiles=Profiles(kernels=(KernelTable(0, "", 1, 1.0, 1.0, rows),)))


class Nights:
    """Nights of one schedule on a server, and its gate."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.server = Server(url, "2026-11-01 12:00")
        self.schedule = self.server.add(spec=TWICE)
        self.gate = self.gate_of(self.server)
        self._day = 1
        self.spread = 0.004  # of the two runs of a night

    def gate_of(self, server: Server, budget: float = 1.0) -> Gatekeeper:
        return Gatekeeper(server.context, Bell(), budget)

    def night(self, level: float, fingerprint: dict[str, Any]) -> None:
        self._day += 1
        self.server.look(f"2026-11-{self._day:02} 02:00")
        newest = str(self.server.fires(self.schedule)[-1].experiment_id)
        rates = (level * (1 + 0.001 * (self._day % 3)), level * (1 + self.spread))
        for run, value in zip(self.server.store.runs_of(newest), rates, strict=True):
            finish(self.server, run.id, rate(value), fingerprint=fingerprint, at=2.0 + RUN_S)
        assert self.server.store.end_experiment(newest, ExperimentState.COMPLETED, 30.0)

    def slowed(self, old: dict[str, Any] | None = None, new: dict[str, Any] | None = None) -> None:
        for _ in range(8):
            self.night(100.0, old or of("0123456789ab"))
        for _ in range(2):
            self.night(90.0, new or of("ba9876543210"))

    def alerts(self) -> Sequence[Alert]:
        return self.server.store.alerts().items

    def alert(self) -> Alert:
        (found,) = self.alerts()
        return found

    def carry_out(
        self, new: float, rounds: int = 20, noise: float = 0.002, experiment: str | None = None, **more: Any
    ) -> None:
        """Have the runs of a confirmation end, the newest where none is named: the old side at 100, the other at
        ``new``."""
        experiment = experiment or self.alert().trials[-1][0]
        for turn in range(rounds):
            queued = [run for run in self.server.store.runs_of(experiment) if run.state is RunState.QUEUED]
            for run in queued:
                level = new if dict(run.plan.pins)[SIDE] == "new" else 100.0
                value = level * math.exp(noise * math.sin(7.0 * run.plan.repetition + level))
                finish(self.server, run.id, profiled(run, rate(value), level), **more)
            if not queued or not review(self.server.context, experiment):
                assert turn
                return

    def messages(self) -> list[Any]:
        """What each message in the outbox tells."""
        found = self.server.store.due_deliveries("whk_1", self.server.clock.time, 10)
        return [json.loads(one.message.body)["data"] for one in found]

    def last(self) -> Field:
        return board(self.server.context, self.schedule).lines[0].fields[-1]


@pytest.fixture
def nights(url: str) -> Iterator[Nights]:
    made = Nights(url)
    yield made
    made.server.close()


@pytest.mark.after_change
def test_a_candidate_is_tried_in_blocks_on_its_devices_confirmed_and_acknowledged(nights: Nights) -> None:
    nights.server.store.add_webhook(a_webhook(1), 1, deed())
    nights.slowed()
    nights.gate.look()
    nights.gate.look()
    alert = nights.alert()
    assert alert.state is AlertState.TRYING
    assert nights.messages() == []
    experiment = nights.server.store.experiment(str(alert.experiment_id))
    assert (experiment.spec.priority, experiment.spec.labels["origin"]) == (PRIORITY, GATE)
    runs = nights.server.store.runs_of(experiment.id)
    assert [dict(run.plan.pins)[SIDE] for run in runs] == ["old", "new", "new", "old"] * 2
    assert {dict(run.plan.pins)["definition"] for run in runs} == {"0123456789ab", "ba9876543210"}
    assert {(run.plan.node_names, run.plan.device_ids) for run in runs} == {(("n0",), ("cpu:0",))}
    assert (nights.last().colour, nights.last().code) == ("amber", "suspect")
    nights.carry_out(90.0)
    nights.gate.look()
    alert = nights.alert()
    assert alert.state is AlertState.OPEN
    (told,) = nights.messages()
    assert [(one["id"], one["state"]) for one in told["alerts"]] == [(alert.id, "open")]
    effect = alert.told.effect
    assert effect is not None
    assert effect.value == pytest.approx(-0.1, abs=0.01)
    assert effect.ci_low < effect.value < effect.ci_high  # type: ignore[operator]
    assert (nights.last().colour, nights.last().code, nights.last().difference) == ("red", "confirmed", effect)
    with pytest.raises(NotAllowed):
        acknowledge(nights.server.context, alert.id, Actor("eve", Scope.SUBMIT))
    for _ in range(2):
        assert acknowledge(nights.server.context, alert.id, WHO).state is AlertState.ACKNOWLEDGED
    assert (nights.last().colour, nights.last().code) == ("green", "acknowledged")
    nights.night(90.0, of("ba9876543210"))
    nights.gate.look()
    assert len(nights.alerts()) == 1  # one cause, one alert


@pytest.mark.parametrize(
    ("devices", "others", "place", "level", "text"),
    [
        (2, [node("n1")], None, None, "4 blocks"),
        (2, [node("n1")], ("n1", "cpu:0"), 90.0, "on equal devices too: in exp"),
        (2, [node("n1", state=NodeState.DRAINING)], ("n0", "cpu:1"), 90.0, "old and new alternating on n0 cpu:1"),
        (1, [node("n1")], ("n1", "cpu:0"), 100.0, "not so on n1 cpu:0, which is equal: tried in exp"),
        (1, [node("n1")], ("n1", "cpu:0"), None, "not known of n1 cpu:0, which is equal: tried in exp"),
        (1, [replace(node("n1"), devices=(Device("cpu:0", "cpu", "a wider cpu", (0, 1)),))], None, 0.0, ""),
    ],
)
@pytest.mark.after_change
def test_what_was_confirmed_is_tried_on_equal_devices_before_anybody_is_told(
    nights: Nights, devices: int, others: list[Node], place: tuple[str, str] | None, level: float | None, text: str
) -> None:
    nights.server.cluster.devices, nights.server.cluster.others = devices, others
    nights.server.store.add_webhook(a_webhook(1), 1, deed())
    nights.slowed()
    nights.gate.look()
    nights.carry_out(90.0)
    nights.gate_of(nights.server, 1.0 if text != "4 blocks" else 1e-4).look()
    if place is not None:
        nights.gate_of(nights.server).look()  # as after a kill
        alert = nights.alert()
        assert (alert.state, nights.messages()) == (AlertState.TRYING, [])
        runs = nights.server.store.runs_of(alert.trials[-1][0])
        assert {(*run.plan.node_names, *run.plan.device_ids) for run in runs} == {place}
        failed = Failure(FailureKind.SETUP_FAILED, "that environment is not on this host")
        nights.carry_out(level or 90.0, **({} if level else {"to": RunState.FAILED, "failure": failed}))
        nights.gate.look()
    alert = nights.alert()
    assert alert.state is AlertState.OPEN
    assert text in alert.told.text
    assert len(nights.messages()) == 1
    told, there = alert_view(alert), alert_view(alert).elsewhere
    assert told.effect is not None
    assert (there is not None, bool(there and there.effect)) == (place is not None, level == 90.0)


@pytest.mark.parametrize(
    ("version", "level", "state", "told"),
    [
        ("cccccccccccc", 100.0, AlertState.CLOSED, "no loss of"),
        ("cccccccccccc", 90.0, AlertState.OPEN, "is not told to be: in exp"),
        ("0123456789ab", None, AlertState.CLOSED, "what had changed is as it was"),
    ],
)
@pytest.mark.after_change
def test_an_open_alert_is_closed_where_what_is_there_now_is_no_slower_than_what_was_before_it(
    nights: Nights, version: str, level: float | None, state: AlertState, told: str
) -> None:
    nights.server.store.add_webhook(a_webhook(1), 1, deed())
    nights.slowed()
    nights.gate.look()
    nights.carry_out(90.0)
    nights.gate.look()
    for _ in range(3):
        nights.night(100.0, of(version))
    nights.gate.look()
    if level is not None:
        nights.gate_of(nights.server).look()  # as after a kill
        (_, (trial, _)) = nights.alert().trials
        pins = [dict(run.plan.pins) for run in nights.server.store.runs_of(trial)]
        assert {(one[SIDE], one["definition"]) for one in pins} == {("old", "0123456789ab"), ("new", version)}
        nights.carry_out(level)
    for _ in range(2):
        nights.gate.look()
    alert = nights.alert()
    assert alert.state is state
    assert told in alert.told.text
    assert not alert.is_asked_anew
    assert [one["alerts"][0]["state"] for one in nights.messages()] == ["open", "closed"][: 1 + (state == "closed")]
    assert nights.last().colour == "green"


def test_what_is_no_slower_side_by_side_is_refuted_and_its_runs_are_no_session_of_the_series(nights: Nights) -> None:
    nights.slowed()
    nights.gate.look()
    nights.carry_out(100.0)
    nights.gate.look()
    assert nights.alert().state is AlertState.REFUTED
    assert "no loss of" in nights.alert().told.tried
    assert (nights.last().colour, nights.last().code) == ("green", "refuted")
    with pytest.raises(Conflict, match="refuted"):
        acknowledge(nights.server.context, nights.alert().id, WHO)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (of("0123456789ab", kernel="6"), of("0123456789ab", kernel="7"), "kernel 6 → 7 cannot be made again"),
        (of("0123456789ab"), of("0123456789ab"), "nothing that is recorded changed"),
    ],
)
@pytest.mark.after_change
def test_what_cannot_be_made_again_is_listed_and_not_tried(nights: Nights, old: Any, new: Any, why: str) -> None:
    nights.slowed(old, new)
    nights.gate.look()
    alert = nights.alert()
    assert (alert.state, alert.experiment_id) == (AlertState.UNCONFIRMED, None)
    assert why in alert.told.tried
    assert (nights.last().colour, nights.last().code) == ("amber", "suspect")
    assert why in str(nights.last().reason)


def test_a_budget_that_does_not_reach_tries_nothing_and_one_that_does_bounds_the_blocks(nights: Nights) -> None:
    nights.slowed()
    for budget in (0.0, 0.1):
        nights.gate_of(nights.server, budget).look()
        assert nights.alerts() == []
    nights.gate_of(nights.server, 0.5).look()  # of 20 runs: 5 blocks
    alert = nights.alert()
    assert "by 5 blocks at most" in alert.told.tried or "by 4 blocks at most" in alert.told.tried


def test_a_clock_that_jumps_in_a_run_costs_no_more_of_the_budget_than_the_run_may_take(nights: Nights) -> None:
    nights.slowed()
    run = nights.server.store.runs_of(str(nights.server.fires(nights.schedule)[-1].experiment_id))[0]
    for ended_at, wanted in ((RUN_S, RUN_S), (9 * 86400.0, 3 * run.plan.timeout_s), (-86400.0, 0.0), (None, 0.0)):
        assert occupied_s(replace(run, started_at=0.0, ended_at=ended_at)) == wanted


@pytest.mark.after_change
def test_two_servers_and_one_that_begins_anew_try_it_once(nights: Nights) -> None:
    nights.spread = 0.03  # so that there may be more than four blocks
    nights.slowed()
    other = Server(nights.url, nights.server.clock.time)
    second = nights.gate_of(other)
    nights.gate.look()
    second.look()
    nights.carry_out(90.0, rounds=1, noise=0.06)
    nights.gate_of(nights.server).look()  # as after a kill
    assert nights.alert().state is AlertState.TRYING
    nights.carry_out(90.0)  # however it goes on: blocks that there were stay
    second.look()
    nights.gate.look()
    other.close()
    assert nights.alert().state is AlertState.OPEN


def test_a_confirmation_that_is_cancelled_removed_or_gives_no_number_confirms_nothing(nights: Nights) -> None:
    nights.slowed()
    nights.gate.look()
    experiment = str(nights.alert().experiment_id)
    with pytest.raises(Conflict, match="confirmation"):
        extend.extend_experiment(nights.server.context, experiment, TWICE, WHO)
    down = Failure(FailureKind.SETUP_FAILED, "the environment pytorch-0123456789ab is not on this host (any more)")
    nights.carry_out(90.0, to=RunState.FAILED, failure=down)
    assert len(nights.server.store.runs_of(experiment)) == 8  # no further blocks
    nights.gate.look()
    assert nights.alert().state is AlertState.UNCONFIRMED
    assert "is not on this host (any more)" in nights.alert().told.tried


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ("its schedule is paused", AlertState.OPEN),
        ("its schedule is removed", AlertState.OPEN),
        ("it is removed", AlertState.UNCONFIRMED),
        ("the clock is set back", AlertState.OPEN),
        ("the clock is set back by a year", AlertState.OPEN),
    ],
)
def test_a_confirmation_that_goes_on_ends_where(nights: Nights, what: str, state: AlertState) -> None:
    nights.slowed()
    nights.gate.look()
    server, experiment = nights.server, str(nights.alert().experiment_id)
    if what == "it is removed":
        for run in server.store.runs_of(experiment):
            assert server.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=4.0)
        server.store.remove_experiment(experiment)
    elif "clock" in what:
        server.clock.time -= 86400.0 * (365 if "year" in what else 3)
    elif what == "its schedule is paused":
        schedules.change(server.context, nights.schedule.id, {"paused": True}, WHO)
    else:
        schedules.remove(server.context, nights.schedule.id, WHO)
    if what != "it is removed":
        nights.carry_out(90.0)
    for _ in range(2):
        nights.gate.look()
    assert nights.alert().state is state
    assert state is AlertState.OPEN or "cannot be read (any more)" in nights.alert().told.tried


def test_nothing_is_tried_of_a_schedule_that_is_paused_and_no_more_where_the_clock_was_set_back(nights: Nights) -> None:
    nights.slowed()
    schedules.change(nights.server.context, nights.schedule.id, {"paused": True}, WHO)
    nights.gate.look()
    assert nights.alerts() == []
    schedules.change(nights.server.context, nights.schedule.id, {"paused": False}, WHO)
    nights.server.clock.time -= 3 * 86400.0
    for _ in range(3):
        nights.gate.look()
        nights.server.clock.time -= 86400.0
    assert nights.alert().state is AlertState.TRYING


def test_each_night_one_cell_is_tried_beside_itself_and_what_that_calls_slower_is_counted(nights: Nights) -> None:
    server = nights.server
    for number, (level, noise) in enumerate(((100.0, 0.002), (100.0, 0.3), (80.0, 0.002))):  # the second cannot tell
        for _ in range(6 if number == 0 else 1):
            nights.night(100.0, of("0123456789ab"))
        for _ in range(2):
            nights.gate_of(server, 10.0).look()  # as after a kill
        pairs = equal_arms(server.context, nights.schedule)
        assert len(pairs) == number + 1
        runs = server.store.runs_of(pairs[0].id)
        assert [dict(run.plan.pins) for run in runs[:2]] == [
            {SIDE: side, "definition": "0123456789ab"} for side in ("old", "new")
        ]
        assert {(run.priority, run.plan.node_names, run.plan.device_ids) for run in runs} == {
            (PRIORITY, ("n0",), ("cpu:0",))
        }
        nights.carry_out(level, 200, noise, experiment=pairs[0].id)
    found = false_alarms(server.context, [nights.schedule])
    assert (found.told, found.slower, found.untold) == (3, 1, 0)
    assert (found.low, found.high) == (pytest.approx(0.0084, abs=1e-4), pytest.approx(0.9057, abs=1e-4))
    assert not any(run.plan.profile for run in server.store.runs_of(pairs[0].id))
    assert nights.alerts() == []
    nights.night(100.0, of("0123456789ab"))
    nights.gate_of(server, 0.01).look()
    assert len(equal_arms(server.context, nights.schedule)) == 3  # the budget has no room for it tonight
    cells = {key: key for key in range(20)}
    drawn = [next(_drawn(Column(at, "fired"), cells)) for at in range(40)]  # type: ignore[arg-type]
    assert len(set(drawn)) > 10


def test_a_confirmation_is_ended_by_a_person_and_after_a_day_without_its_devices(nights: Nights) -> None:
    nights.slowed()
    nights.gate.look()
    experiment = str(nights.alert().experiment_id)
    nights.gate.look()
    assert not nights.server.store.experiment(experiment).cancel_requested
    nights.server.clock.time += PATIENCE_S + 60.0
    nights.gate.look()
    assert nights.server.store.experiment(experiment).cancel_requested
    cancel.cancel_experiment(nights.server.context, experiment, WHO)
    for run in nights.server.store.runs_of(experiment):
        assert nights.server.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=4.0)
    assert review(nights.server.context, experiment)
    nights.gate.look()
    assert nights.alert().state is AlertState.UNCONFIRMED
