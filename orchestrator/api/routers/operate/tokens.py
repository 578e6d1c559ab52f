"""Tokens: make one, look at all, revoke one."""

from fastapi import APIRouter, Request, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, JsonBody, Limit, json_body_of
from orchestrator.api.views.access import NewTokenView, TokenView
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.services import tokens

router = APIRouter(prefix="/tokens", tags=["access"])
BODY = json_body_of("TokenRequest", name="ada", scope="submit", expires_days=90)


@router.post("", status_code=201, response_model=NewTokenView, openapi_extra=BODY)
def create_token(request: Request, context: Ctx, who: Who, body: JsonBody) -> Response:
    """Make a token. Its text is in this answer and nowhere else: the server keeps a digest."""
    token, text = tokens.add(context.store, context.clock, body, who)
    request.app.state.gate.forget()
    return answer(NewTokenView.at(token.created_at, token, token=text), 201)


@router.get("", response_model=PageView[TokenView])
def list_tokens(context: Ctx, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """All tokens there ever were, newest first."""
    page, now = context.store.tokens(limit=limit, cursor=cursor), context.clock.now()
    return answer(page_view(page, lambda token: TokenView.at(now, token)))


@router.post("/{token_id}/revoke", response_model=TokenView)
def revoke_token(request: Request, context: Ctx, who: Who, token_id: str) -> Response:
    """Revoke a token, by its id or the name of the only usable one. Idempotent. This server refuses it from now on,
    others of the same database within a second."""
    token = tokens.revoke(context.store, context.clock, token_id, who)
    request.app.state.gate.forget()
    return answer(TokenView.at(context.clock.now(), token))
