"""Webhooks: whom the service tells of alerts, the messages that wait for them, and when each is tried again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.alerts import Alert
from orchestrator.domain.runs.stored import Page

WEBHOOK_PREFIX, MESSAGE_PREFIX = "whk", "msg"
HOUR_S = 3600.0
GIVEN_UP_S = 72 * HOUR_S  # a message that nobody took by then
# After each failed try, in seconds: the example of the Standard Webhooks specification 1.0.0 ("Deliverability and
# reliability"). The last try is at ``GIVEN_UP_S``.
PAUSES_S = (5.0, 300.0, 1800.0, 2 * HOUR_S, 5 * HOUR_S, 10 * HOUR_S, 14 * HOUR_S, 20 * HOUR_S, 24 * HOUR_S)


def is_of_chat(url: str) -> bool:
    """Whether ``url`` is one of e-mail or a chat, and not of http or https, in whatever case these are written."""
    return url.partition(":")[0].lower() not in ("http", "https")


@dataclass(frozen=True)
class Webhook:
    """An address that is told.

    Attributes:
        url: of http or https; or one of e-mail or a chat, which is a secret.
        secret: by which messages are signed, as the receiver has it: ``whsec_`` and base64. Empty: they are not.
        n_delivered, n_given_up: messages that it took, and that nobody took within ``GIVEN_UP_S``.
        last_message_id, last_at, last_answer: of the newest try; ``last_answer`` in words.
        failing_since: the first of the tries that failed since one succeeded; None where the last one did.
        n_waiting: messages that it has not taken yet.
    """

    id: str
    url: str
    secret: str = field(repr=False)
    created_at: float
    n_delivered: int = 0
    n_given_up: int = 0
    last_message_id: str | None = None
    last_at: float | None = None
    last_answer: str | None = None
    failing_since: float | None = None
    n_waiting: int = 0

    @property
    def is_chat(self) -> bool:
        """Whether it is told in words."""
        return is_of_chat(self.url)

    @property
    def shown_url(self) -> str:
        """``url`` without its secrets."""
        return f"{self.url.partition('://')[0]}://…" if self.is_chat else self.url


@dataclass(frozen=True)
class Message:
    """What is told, under one id, however often it is sent. ``body`` is JSON; it is given up at ``until``."""

    id: str
    created_at: float
    until: float
    body: str


@dataclass(frozen=True)
class Delivery:
    """A message that a webhook has not taken yet, after so many ``tries``."""

    webhook_id: str
    message: Message
    tries: int

    def next_at(self, now: float) -> float | None:
        """When it is tried again, where a try has failed ``now``; None where it is given up."""
        if now >= self.message.until:
            return None
        return min(now + PAUSES_S[min(self.tries, len(PAUSES_S) - 1)], self.message.until)


class Answer(NamedTuple):
    """What became of a try. ``text`` in words: the status, or why there was none."""

    is_taken: bool
    text: str


class WebhookStore(Protocol):
    """What the store knows of webhooks and of what they are to be told."""

    def add_webhook(self, new: Webhook, most: int, deed: Deed) -> None:
        """Store it.

        Raises:
            Conflict: there are ``most`` already.
        """

    def remove_webhook(self, webhook_id: str, deed: Deed) -> None:
        """Remove it with what waits for it. Raises NotFound."""

    def webhooks(self, *, limit: int = 50, cursor: str | None = None) -> Page[Webhook]:
        """All, the newest first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def untold_alerts(self) -> Sequence[Alert]:
        """Those that became open or closed, and that no message has told of, the oldest first."""

    def add_message(self, message: Message, alerts: Sequence[Alert] = (), webhook_id: str | None = None) -> None:
        """Have it wait for that webhook, or for all that there are; ``alerts`` are told of with it. All in one
        transaction. Of alerts that changed meanwhile nothing is noted: another message will tell of them.

        Raises:
            NotFound: there is no such webhook.
        """

    def due_webhooks(self, now: float) -> Sequence[Webhook]:
        """Those for which a message is due. ``n_waiting`` is not counted."""

    def due_deliveries(self, webhook_id: str, now: float, most: int) -> Sequence[Delivery]:
        """The messages that are due for it, those that have waited longest first. What is due later than the longest
        pause from now is due as well: the clock was set back."""

    def note_answer(self, delivery: Delivery, answer: Answer, at: float) -> None:
        """Note what became of a try: it is over where it was taken or is given up, else it is due again. Nothing is
        noted where the webhook was removed meanwhile."""
