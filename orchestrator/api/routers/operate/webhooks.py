"""Webhooks: whom the service tells of alerts."""

from fastapi import APIRouter, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, JsonBody, Limit, json_body_of
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.webhooks import NewWebhookView, SentView, WebhookView
from orchestrator.services.gate import webhooks

router = APIRouter(prefix="/webhooks", tags=["access"])
BODY = json_body_of("WebhookRequest", url="https://chat.example/hooks/1")


@router.post("", status_code=201, response_model=NewWebhookView, openapi_extra=BODY)
def create_webhook(context: Ctx, who: Who, body: JsonBody) -> Response:
    """Add a webhook. The secret by which its messages are signed is in this answer and in no other."""
    made = webhooks.add(context, body, who)
    return answer(NewWebhookView.of(made, url=made.shown_url), 201)


@router.get("", response_model=PageView[WebhookView])
def list_webhooks(context: Ctx, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """All webhooks, newest first, with what became of the newest try and how many messages wait."""
    return answer(
        page_view(
            context.store.webhooks(limit=limit, cursor=cursor), lambda one: WebhookView.of(one, url=one.shown_url)
        )
    )


@router.delete("/{webhook_id}", status_code=204, response_class=Response)
def delete_webhook(context: Ctx, who: Who, webhook_id: str) -> Response:
    """Remove a webhook, with the messages that wait for it."""
    webhooks.remove(context, webhook_id, who)
    return Response(status_code=204)


@router.post("/{webhook_id}/test", status_code=202, response_model=SentView)
def test_webhook(context: Ctx, webhook_id: str) -> Response:
    """Have a message sent that tells of nothing, once. What became of it stands in the list, under the message's id."""
    return answer(SentView(message_id=webhooks.test(context, webhook_id).id), 202)
