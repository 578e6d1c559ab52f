"""Sends what waits in the outbox: at least once, under one id, signed by the Standard Webhooks specification 1.0.0.

A webhook has a thread of its own while messages are due for it, so that one that hangs delays no other. A try that
cannot be noted, as the server was killed in it, is repeated: receivers tell by the id that they have it already.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from standardwebhooks import Webhook as Signer

from orchestrator.domain.around.webhooks import Answer, Delivery, Message, Webhook
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services.context import Context
from orchestrator.services.gate import chats
from orchestrator.services.lookout import POLL_S, Lookout
from orchestrator.services.reconcile.reconciler import Bell

log = logging.getLogger(__name__)

PART = 20  # messages that are read at once
LEAVE_S = 2.0  # that an orderly stop waits for a try in progress. A judgement

Post = Callable[[str, Mapping[str, str], bytes], Answer]


class Messenger(Lookout):
    """Sends by ``post``: (URL, headers, body) to what became of it; it must not fail, and end within seconds."""

    def __init__(self, context: Context, bell: Bell, post: Post, poll_s: float = POLL_S) -> None:
        super().__init__("messenger", bell)
        self._context = context
        self._post = post
        self._poll_s = poll_s
        self._senders: dict[str, threading.Thread] = {}

    def look(self) -> float:
        """Have each webhook for which something is due told; see ``Lookout.look``."""
        self._senders = {of: thread for of, thread in self._senders.items() if thread.is_alive()}
        for one in self._context.store.due_webhooks(self._context.clock.now()):
            if one.id not in self._senders:
                sender = threading.Thread(target=self._tell, args=(one,), name=f"webhook-{one.id}", daemon=True)
                self._senders[one.id] = sender
                sender.start()
        return self._poll_s

    def close(self) -> None:
        super().close()
        for sender in self._senders.values():
            sender.join(timeout=LEAVE_S)

    def _tell(self, webhook: Webhook) -> None:
        """Try all that is due for it, one message after the other."""
        store, clock = self._context.store, self._context.clock
        try:
            while due := store.due_deliveries(webhook.id, clock.now(), PART):
                for one in due:
                    if self._closing.is_set():
                        return
                    self._try(webhook, one)
        except StoreUnavailable as error:
            log.warning("%s: %s; trying again", webhook.id, error)
        except Exception:  # a mistake of ours must not end the service: say so and go on
            if not self._closing.is_set():  # else the store is closed as well, and the next server tries again
                log.exception("telling %s failed", webhook.id)

    def _try(self, webhook: Webhook, one: Delivery) -> None:
        if webhook.is_chat:
            answer = chats.send(webhook.url, one.message.body)
        else:
            headers = headers_of(webhook.secret, one.message, self._context.clock.now())
            answer = self._post(webhook.url, headers, one.message.body.encode())
        self._context.store.note_answer(one, answer, self._context.clock.now())
        if not answer.is_taken:  # its URL may have a secret in it
            log.warning("%s did not take %s, try %d: %s", webhook.id, one.message.id, one.tries + 1, answer.text)


def headers_of(secret: str, message: Message, at: float) -> Mapping[str, str]:
    """What goes with a message that is sent at ``at``: its id, the time of this try, the signature of all of it."""
    return {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at)),
        "webhook-signature": Signer(secret).sign(message.id, datetime.fromtimestamp(at, UTC), message.body),
    }
