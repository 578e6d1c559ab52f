"""Add and remove webhooks, and try one."""

import base64
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.webhooks import MESSAGE_PREFIX, WEBHOOK_PREFIX, Message, Webhook, is_of_chat
from orchestrator.domain.asked.spec import StrictModel, problems_of
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.gate import chats
from orchestrator.services.gate.outbox import body_of
from orchestrator.services.tokens import deed_of

MOST_WEBHOOKS = 20  # each may have a thread: a judgement
LONGEST_URL = 2000
SECRET_BYTES = 32  # the specification wants 24 to 64


def _address(url: str) -> str:
    """Raises ValueError: nothing can be sent there."""
    if (
        re.fullmatch("[!-~]+", url) and "://" in url and is_of_chat(url)
    ):  # of any form: tgram:// has no host, nor a port
        if why := chats.why_not(url):
            raise ValueError(why)
        return url
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"this is no URL: {error}") from None
    if not re.fullmatch("[!-~]+", url) or not parts.hostname or port == 0:
        raise ValueError(
            "a webhook is a URL of http or https, such as https://chat.example/hooks/1, or of e-mail or a chat, "
            "such as mailto://ada:password@mail.example, in ASCII"
        )
    if parts.username is not None or parts.fragment:
        raise ValueError("a user, a password and what stands behind # are not sent: leave them out")
    return url


class WebhookRequest(StrictModel):
    """An address to be told of alerts."""

    url: Annotated[
        str,
        Field(
            max_length=LONGEST_URL,
            description="https; or http: signed, and for everybody on the way to read; or what apprise calls e-mail or "
            "a chat, such as mailto://, which is told in words",
        ),
        AfterValidator(_address),
    ]


def add(context: Context, body: Any, by: Actor) -> Webhook:
    """Store a new webhook, with its secret, which is told this once.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
        Conflict: there are ``MOST_WEBHOOKS`` already.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest(
            [Problem("", "a webhook is asked for by an object, such as {url: https://chat.example/1}")]
        )
    try:
        asked = WebhookRequest.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(WebhookRequest, body, error)) from None
    now = context.clock.now()
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"
    new = Webhook(new_id(WEBHOOK_PREFIX), asked.url, secret, now)
    new = replace(new, secret="") if new.is_chat else new
    context.store.add_webhook(new, MOST_WEBHOOKS, deed_of(by, now, "webhook add", new.id))
    return new


def remove(context: Context, webhook_id: str, by: Actor) -> None:
    """Remove it with what waits for it. Raises NotFound."""
    context.store.remove_webhook(webhook_id, deed_of(by, context.clock.now(), "webhook rm", webhook_id))


def test(context: Context, webhook_id: str) -> Message:
    """Have a message sent to it that tells of nothing, once: one that it does not take is not tried again.

    Raises:
        NotFound: there is no such webhook.
    """
    now = context.clock.now()
    new = Message(new_id(MESSAGE_PREFIX), now, now, body_of("test", now, {"webhook": webhook_id}))
    context.store.add_message(new, (), webhook_id)
    context.wake()
    return new
