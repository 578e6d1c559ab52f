"""The contract of the store: webhooks and the outbox. On SQLite and on PostgreSQL."""

from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import text

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.alerts import AlertState
from orchestrator.domain.around.webhooks import GIVEN_UP_S, HOUR_S, Answer, Delivery, Message, Webhook
from orchestrator.domain.words.errors import Conflict, NotFound
from orchestrator.services.clock import new_id
from tests.contract.test_store_alerts import TOLD, an_alert

pytest_plugins = ["tests.contract.store_servers"]

NOW = 1_000_000.0
TAKEN, FAILED = Answer(True, "204 No Content"), Answer(False, "500 Internal Server Error")


def deed() -> Deed:
    return Deed(new_id("deed"), NOW, "root", None, None, "webhook add", "whk")


def a_webhook(number: int) -> Webhook:
    return Webhook(f"whk_{number}", f"https://h{number}.example/", "whsec_c2VjcmV0", NOW + number)


def a_message(number: int = 1, until: float = NOW + GIVEN_UP_S) -> Message:
    return Message(f"msg_{number}", NOW, until, '{"type":"test"}')


def waiting(store: SqlStore, at: float, webhook: str = "whk_1") -> list[Delivery]:
    return list(store.due_deliveries(webhook, at, 10))


@pytest.fixture
def two(store: SqlStore) -> SqlStore:
    """A store with two webhooks."""
    for number in (1, 2):
        store.add_webhook(a_webhook(number), 2, deed())
    return store


def test_webhooks_come_back_newest_first_up_to_a_number_and_no_text_shows_a_secret(two: SqlStore) -> None:
    with pytest.raises(Conflict, match="2 webhooks already"):
        two.add_webhook(a_webhook(3), 2, deed())
    assert two.webhooks().items == [a_webhook(2), a_webhook(1)]
    assert "whsec" not in repr(a_webhook(1))


def test_a_message_waits_for_all_or_for_one_until_it_is_taken(two: SqlStore) -> None:
    two.add_message(a_message(1))
    two.add_message(a_message(2), (), "whk_2")
    with pytest.raises(NotFound):
        two.add_message(a_message(3), (), "whk_3")
    assert {one.id: one.n_waiting for one in two.webhooks().items} == {"whk_1": 1, "whk_2": 2}
    (first,) = waiting(two, NOW)
    assert first == Delivery("whk_1", a_message(1), 0)
    two.note_answer(first, TAKEN, NOW + 1)
    told = next(one for one in two.webhooks().items if one.id == "whk_1")
    wanted = {"n_delivered": 1, "last_message_id": "msg_1", "last_at": NOW + 1, "last_answer": TAKEN.text}
    assert told == replace(a_webhook(1), **wanted)  # type: ignore[arg-type]
    assert [one.id for one in two.due_webhooks(NOW)] == ["whk_2"]
    two.note_answer(first, FAILED, NOW + 2)  # it is over: nothing is noted of it
    two.remove_webhook("whk_2", deed())
    assert two.webhooks().items == [told]
    assert two.database.read(lambda connection: connection.execute(text("SELECT * FROM message")).all()) == []
    with pytest.raises(NotFound):
        two.remove_webhook("whk_2", deed())


def test_what_nobody_takes_is_tried_after_growing_pauses_for_three_days_and_a_clock_set_back_holds_nothing_up(
    two: SqlStore,
) -> None:
    two.add_message(a_message())
    now, times = NOW, []
    while due := waiting(two, now):
        times.append(now - NOW)
        two.note_answer(due[0], FAILED, now)
        if again := waiting(two, now + 30 * HOUR_S):
            assert again[0].tries == len(times)
            now = two.database.read(
                lambda connection: connection.execute(
                    text("SELECT due_at FROM delivery WHERE webhook_id = 'whk_1'")
                ).scalar_one()
            )
            assert waiting(two, now - 1.0) == []
            assert waiting(two, NOW - 100 * HOUR_S) == again
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses)
    assert times[-1] == GIVEN_UP_S
    (told,) = [one for one in two.webhooks().items if one.id == "whk_1"]
    assert (told.n_given_up, told.n_waiting, told.failing_since, told.last_at) == (1, 0, NOW, NOW + GIVEN_UP_S)


def test_a_message_that_is_tried_once_is_not_counted_as_given_up(two: SqlStore) -> None:
    two.add_message(a_message(until=NOW), (), "whk_1")
    (only,) = waiting(two, NOW)
    two.note_answer(only, FAILED, NOW + 1)
    (told,) = [one for one in two.webhooks().items if one.id == "whk_1"]
    assert (told.n_given_up, told.n_waiting, told.failing_since) == (0, 0, NOW + 1)


def test_an_alert_is_told_of_once_it_opens_and_again_where_it_changed_in_between(two: SqlStore) -> None:
    two.add_alert(an_alert(1, state=AlertState.TRYING))
    assert two.untold_alerts() == []
    two.move_alert("alt_1", AlertState.TRYING, AlertState.OPEN, TOLD, 2000.0)
    (seen,) = two.untold_alerts()
    two.move_alert("alt_1", AlertState.OPEN, AlertState.ACKNOWLEDGED, TOLD, 3000.0)
    two.add_message(a_message(1), [seen])
    (again,) = two.untold_alerts()
    assert again.state is AlertState.ACKNOWLEDGED
    two.add_message(a_message(2), [again])
    assert two.untold_alerts() == []
    assert len(waiting(two, NOW)) == 2


def test_a_damaged_webhook_spoils_no_other_and_the_check_finds_it(two: SqlStore, url: str) -> None:
    damage = text("UPDATE webhook SET created_at = -5e12 WHERE id = 'whk_2'")
    two.database.write(lambda connection: connection.execute(damage))
    page = two.webhooks()
    assert page.items == [a_webhook(1)]
    assert [one.way_out for one in page.damaged] == ["tbd webhooks rm whk_2"]
    assert [one.table for one in admin.damaged(url)] == ["webhook"]
