"""Webhooks and the outbox: their rows. What the functions promise stands in ``domain.around.webhooks``."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, ScalarSelect, delete, func, insert, or_, select, update

from orchestrator.db.access import deeds
from orchestrator.db.reading import paging, rows
from orchestrator.db.schedule import alerts as alert_rows
from orchestrator.db.tables.alerts import alert
from orchestrator.db.tables.webhooks import delivery, message, webhook
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.alerts import Alert
from orchestrator.domain.around.webhooks import PAUSES_S, Answer, Delivery, Message, Webhook
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import Conflict, NotFound

MOST_UNTOLD = 1000  # alerts of one look: a judgement


def add(connection: Connection, new: Webhook, most: int, deed: Deed) -> None:
    if connection.execute(select(func.count()).select_from(webhook)).scalar_one() >= most:
        raise Conflict(f"there are {most} webhooks already: remove one first (tbd webhooks rm ID)")
    values = {column.name: getattr(new, column.name) for column in webhook.columns}
    connection.execute(insert(webhook).values(values))
    deeds.record(connection, deed)


def remove(connection: Connection, webhook_id: str, deed: Deed) -> None:
    waiting = select(delivery.c.message_id).where(delivery.c.webhook_id == webhook_id)
    messages = list(connection.execute(waiting).scalars())
    connection.execute(delete(delivery).where(delivery.c.webhook_id == webhook_id))
    for one in messages:
        _forget(connection, one)
    if connection.execute(delete(webhook).where(webhook.c.id == webhook_id)).rowcount == 0:
        raise NotFound("webhook", webhook_id)
    deeds.record(connection, deed)


def page(connection: Connection, *, limit: int = 50, cursor: str | None = None) -> Page[Webhook]:
    found, next_cursor = paging.page(connection, select(webhook, _waiting()), webhook, limit, cursor)
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def _waiting() -> ScalarSelect[int]:
    count = select(func.count()).where(delivery.c.webhook_id == webhook.c.id)
    return count.correlate(webhook).scalar_subquery().label("n_waiting")  # type: ignore[return-value]


def untold(connection: Connection) -> list[Alert]:
    asked = select(alert).where(alert.c.is_untold.is_(True)).order_by(alert.c.updated_at, alert.c.id)
    return rows.sorted_out(connection.execute(asked.limit(MOST_UNTOLD)), alert_rows.read)[0]


def add_message(
    connection: Connection, new: Message, alerts: Sequence[Alert] = (), webhook_id: str | None = None
) -> None:
    for one in alerts:
        same = (alert.c.id == one.id, alert.c.updated_at == one.updated_at)
        connection.execute(update(alert).where(*same).values(is_untold=False))
    asked = select(webhook.c.id)
    if webhook_id is not None:
        asked = asked.where(webhook.c.id == webhook_id)
    found = list(connection.execute(asked).scalars())
    if webhook_id is not None and not found:
        raise NotFound("webhook", webhook_id)
    if found:
        connection.execute(insert(message).values(rows.values_of(message, new)))
        waiting = [{"webhook_id": one, "message_id": new.id, "due_at": new.created_at, "tries": 0} for one in found]
        connection.execute(insert(delivery), waiting)


def due(connection: Connection, now: float) -> list[Webhook]:
    waits = select(delivery.c.message_id).where(delivery.c.webhook_id == webhook.c.id, _is_due(now))
    return rows.sorted_out(connection.execute(select(webhook).where(waits.exists())), read)[0]


def _is_due(now: float) -> ColumnElement[bool]:
    return or_(delivery.c.due_at <= now, delivery.c.due_at > now + max(PAUSES_S))


def due_of(connection: Connection, webhook_id: str, now: float, most: int) -> list[Delivery]:
    asked = select(message, delivery.c.tries).join(delivery, message.c.id == delivery.c.message_id)
    asked = asked.where(delivery.c.webhook_id == webhook_id, _is_due(now)).order_by(delivery.c.due_at).limit(most)
    found = connection.execute(asked)
    return [Delivery(webhook_id, rows.made_of(Message, row), row.tries) for row in found]


def note(connection: Connection, tried: Delivery, answer: Answer, at: float) -> None:
    again = None if answer.is_taken else tried.next_at(at)
    mine = (delivery.c.webhook_id == tried.webhook_id, delivery.c.message_id == tried.message.id)
    if again is None:
        changed = connection.execute(delete(delivery).where(*mine)).rowcount
        _forget(connection, tried.message.id)
    else:
        values = {"due_at": again, "tries": tried.tries + 1}
        changed = connection.execute(update(delivery).where(*mine).values(values)).rowcount
    if not changed:
        return
    told = {"last_message_id": tried.message.id, "last_at": at, "last_answer": answer.text}
    if answer.is_taken:
        told |= {"n_delivered": webhook.c.n_delivered + 1, "failing_since": None}
    else:
        told |= {"failing_since": func.coalesce(webhook.c.failing_since, at)}
        if again is None and tried.message.until > tried.message.created_at:  # a test is tried once
            told |= {"n_given_up": webhook.c.n_given_up + 1}
    connection.execute(update(webhook).where(webhook.c.id == tried.webhook_id).values(told))


def _forget(connection: Connection, message_id: str) -> None:
    """Remove the message where it waits for nobody any more."""
    waits = select(delivery.c.message_id).where(delivery.c.message_id == message_id)
    connection.execute(delete(message).where(message.c.id == message_id, ~waits.exists()))


def read(row: rows.AnyRow) -> Webhook:
    """Raises DamagedRow."""
    return rows.read("webhook", row.id, None, lambda: rows.made_of(Webhook, row))
