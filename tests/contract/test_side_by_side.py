"""``tbd compare A B --interleave`` over SQLite and PostgreSQL: what may be tried side by side, and what blocks tell.
Numbers of runs are set here; one that is really carried out is in ``tests/integration/test_projects.py``."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from orchestrator.domain.around.alerts import GATE
from orchestrator.domain.asked.plan import DEFINITION, SIDE
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.domain.words.errors import DamagedRow, IdempotencyMismatch, InvalidRequest, NotFound
from orchestrator.services.gate import side_by_side
from orchestrator.services.reconcile import confirming
from tests.contract.test_gate import Nights, of
from tests.support.schedule_rig import MOSTLY_SQLITE, WHO

pytest_plugins = ["tests.contract.store_servers"]
pytestmark = MOSTLY_SQLITE
OLD, NEW = "0123456789ab", "ba9876543210"


@pytest.fixture
def nights(url: str) -> Iterator[Nights]:
    found = Nights(url)
    found.night(100.0, of(OLD))
    found.night(90.0, of(NEW))
    yield found
    found.server.close()


def experiments(nights: Nights) -> list[str]:
    return [str(fire.experiment_id) for fire in nights.server.fires(nights.schedule) if fire.experiment_id]


def asked(nights: Nights, **more: Any) -> dict[str, Any]:
    old, new = experiments(nights)
    return {"baseline": old, "candidate": new, "budget_s": 4000.0, **more}


@pytest.mark.parametrize(
    ("new", "answer", "effect"), [(90.0, "slower", -0.1), (100.0, "no_such_loss", 0.0), (110.0, "no_such_loss", 0.1)]
)
def test_two_subjects_alternate_until_they_tell(nights: Nights, new: float, answer: str, effect: float) -> None:
    experiment, created = side_by_side.begin(nights.server.context, asked(nights, level=0.01), WHO)
    assert created
    assert confirming.wanted_of(experiment).level == 0.01
    runs = nights.server.store.runs_of(experiment.id)
    sides = ["old", "new", "new", "old"]
    assert [dict(run.plan.pins)[SIDE] for run in runs] == sides * 2
    assert {dict(run.plan.pins)[SIDE]: dict(run.plan.pins)[DEFINITION] for run in runs} == {"old": OLD, "new": NEW}
    assert {run.priority for run in runs} == {0}
    nights.carry_out(new, experiment=experiment.id)
    told = side_by_side.told(nights.server.context, experiment.id)
    assert (told.over, told.found.answer, told.n_lost) == (True, answer, 0)
    assert told.found.effect == pytest.approx(effect, abs=0.01)
    profiled = [run.plan for run in nights.server.store.runs_of(experiment.id) if run.plan.profile]
    assert [dict(plan.pins)[SIDE] for plan in profiled] == (sides * 2)[: 6 * (answer == "slower")]
    if answer == "slower":
        assert told.operators is not None
        assert [one.name for one in told.operators.told] == ["norm"]
        assert told.operators.whole.difference_s == pytest.approx(1 / 90 - 1 / 100, rel=0.05)


def test_a_key_makes_it_once_and_definitions_may_be_named_themselves(nights: Nights) -> None:
    body = {"baseline": NEW, "candidate": OLD, "of": experiments(nights)[0], "detect": 0.05}
    first, _ = side_by_side.begin(nights.server.context, body, WHO, "key")
    again, created = side_by_side.begin(nights.server.context, body, WHO, "key")
    assert (again.id, created) == (first.id, False)
    with pytest.raises(IdempotencyMismatch):
        side_by_side.begin(nights.server.context, body | {"detect": 0.04}, WHO, "key")
    runs = nights.server.store.runs_of(first.id)
    assert dict(runs[0].plan.pins) | {SIDE: "old", DEFINITION: NEW} == dict(runs[0].plan.pins)


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({"budget_s": 100.0}, "/budget_s", "4 blocks of two runs take 160 s of the devices' time, and 100 s are given"),
        ({"detect": 0}, "/detect", "greater than 0"),
        ({"detect": 1}, "/detect", "less than 1"),
        ({"candidate": "SAME"}, "/candidate", "differ in nothing that is recorded"),
        ({"of": "SAME", "candidate": "main"}, "/baseline", "is neither a commit"),
        ({"of": "SAME", "baseline": OLD, "candidate": "1" * 40}, "/candidate", "is in no folder of TBD_SUITE_PATH"),
    ],
)
@pytest.mark.after_change
def test_what_cannot_be_tried_is_refused(nights: Nights, changed: dict[str, Any], pointer: str, said: str) -> None:
    first = experiments(nights)[0]
    body = asked(nights, **{name: first if value == "SAME" else value for name, value in changed.items()})
    with pytest.raises(InvalidRequest) as refused:
        side_by_side.begin(nights.server.context, body, WHO)
    assert [problem.pointer for problem in refused.value.problems] == [pointer]
    assert said in refused.value.problems[0].message


@pytest.mark.parametrize(
    "changed",
    [{"old": {}}, {"new": {"model": 3}}, {"old": None}, {"size": "much"}, {"size": 0.0}, {"most_blocks": 0}],
    ids=str,
)
@pytest.mark.after_change
def test_one_whose_plan_is_damaged_is_refused_with_the_reason_and_comes_to_an_end(
    nights: Nights, changed: dict[str, Any]
) -> None:
    context = nights.server.context
    experiment, _ = side_by_side.begin(context, asked(nights), WHO)
    facts = {**experiment.facts, GATE: {**experiment.facts[GATE], **changed}}
    of = (json.dumps(facts), experiment.id)
    nights.server.store.database.write(
        lambda connection: connection.execute(
            text("UPDATE experiment SET facts = :facts WHERE id = :id"), dict(zip(("facts", "id"), of, strict=True))
        )
    )
    with pytest.raises(DamagedRow, match=f"its confirmation cannot be read.*tbd rm {experiment.id}"):
        side_by_side.told(context, experiment.id)
    nights.carry_out(90.0, rounds=2, experiment=experiment.id)
    assert nights.server.store.experiment(experiment.id).state is ExperimentState.COMPLETED


def test_other_experiments_are_no_confirmation_and_those_that_are_not_there_are_not_found(nights: Nights) -> None:
    with pytest.raises(InvalidRequest, match="nothing alternates"):
        side_by_side.told(nights.server.context, experiments(nights)[0])
    with pytest.raises(NotFound):
        side_by_side.begin(nights.server.context, asked(nights, candidate="exp_gone"), WHO)
