"""Tokens and deeds as they are answered. Only the answer that makes a token has its text."""

from typing import Any, Self

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.around.access import Deed, Token


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

    @classmethod
    def at(cls, now: float, stored: Token, /, **more: Any) -> Self:
        """The view of a token as it is ``now``; ``more`` are fields that only the view has."""
        return cls.of(stored, state=stored.state(now).value, **more)


class NewTokenView(TokenView):
    """A token that was just made: ``token`` is its text, which is told this once."""

    token: str


@fields_of(Deed)
class DeedView(View):
    """Something that was done: by whom, with which token, from which address. ``target`` is an id, or a node's name."""

    at: Time
