"""Webhooks as they are answered. Only the answer that makes one has its secret."""

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.around.webhooks import Webhook


@fields_of(Webhook, without=("secret",))
class WebhookView(View):
    """A webhook without its secret; of e-mail and chats the ``url`` is one, and begins here only. ``last_message_id``,
    ``last_at`` and ``last_answer`` are of the newest try, ``failing_since`` is null where that was taken.
    ``n_given_up``: messages that were not taken within three days."""

    failing_since: Time | None


@fields_of(Webhook)
class NewWebhookView(WebhookView):
    """A webhook that was just made: ``secret``, ``whsec_`` and base64, is told this once. It is empty where messages
    are told in words, and not signed."""


class SentView(View):
    """The message that is sent."""

    message_id: str
