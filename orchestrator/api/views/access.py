"""Tokens and deeds as they are answered. Only the answer that makes a token has its text."""

from orchestrator.api.views.common import Time, View, maybe_rfc3339, rfc3339
from orchestrator.domain.access import Deed, Token


class TokenView(View):
    """A token without its secret. ``state``: usable, expired, revoked; ``expires_at`` null: never; ``last_used_at`` to
    the minute."""

    id: str
    name: str
    owner: str
    scope: str
    state: str
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None
    last_used_at: Time | None


class NewTokenView(TokenView):
    """A token that was just made: ``token`` is its text, which is told this once."""

    token: str


class DeedView(View):
    """Something that was done: by whom, with which token, from which address. ``target`` is an id, or a node's name."""

    id: str
    at: Time
    who: str
    token_id: str | None
    address: str | None
    action: str
    target: str


def token_view(token: Token, now: float) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        owner=token.owner,
        scope=token.scope.value,
        state=token.state(now).value,
        created_at=rfc3339(token.created_at),
        expires_at=maybe_rfc3339(token.expires_at),
        revoked_at=maybe_rfc3339(token.revoked_at),
        last_used_at=maybe_rfc3339(token.last_used_at),
    )


def new_token_view(token: Token, text: str) -> NewTokenView:
    return NewTokenView(token=text, **token_view(token, token.created_at).model_dump())


def deed_view(deed: Deed) -> DeedView:
    return DeedView(**{**vars(deed), "at": rfc3339(deed.at)})
