"""Tokens: what their text says, what of it is stored, and what their scopes reach."""

import hmac
import re
from contextlib import nullcontext
from dataclasses import replace

import pytest

from orchestrator.domain.around import access
from orchestrator.domain.around.access import Actor, Scope, Token, TokenState
from orchestrator.domain.words.errors import NotAllowed

SECRET = "0123456789abcdef" * 4
TOKEN = Token("tok_0123456789abcdefghjk", "ada", "ada", Scope.SUBMIT, access.digest(SECRET), created_at=1000.0)


def test_the_text_of_a_token_says_its_id_and_its_secret_and_needs_no_quoting() -> None:
    text = access.text_of(TOKEN.id, SECRET)
    assert access.presented(text) == (TOKEN.id, SECRET)
    assert re.fullmatch(r"[a-z0-9_]+", text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "tbd_", "tbd__", SECRET, "ß" * 89, f"tbd_0123456789ABCDEFGHJK_{SECRET}"),
        *(f"tbd_0123456789abcdefghjk_{text}" for text in (SECRET + "0", SECRET[1:], SECRET + "\n")),
    ],
)
def test_what_is_no_token_is_told_apart(text: str) -> None:
    assert access.presented(text) is None


def test_only_its_secret_matches() -> None:
    assert TOKEN.matches(SECRET)
    assert not TOKEN.matches(SECRET[:-1] + "0")
    assert not TOKEN.matches("")
    assert SECRET not in repr(TOKEN)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda left, right: asked.append((left, right)) or compare(left, right))
    TOKEN.matches("wrong")
    assert asked == [(access.digest("wrong"), TOKEN.secret_sha256)]


def test_a_token_is_usable_until_it_expires_or_is_revoked() -> None:
    limited = replace(TOKEN, expires_at=2000.0)
    assert [limited.state(now) for now in (1999.9, 2000.0)] == [TokenState.USABLE, TokenState.EXPIRED]
    assert TOKEN.state(1e12) is TokenState.USABLE
    assert replace(limited, revoked_at=1500.0).state(1600.0) is TokenState.REVOKED


def test_a_scope_holds_those_before_it() -> None:
    covered = {scope: [needed for needed in Scope if scope.covers(needed)] for scope in Scope}
    read, submit, admin = Scope
    assert covered == {read: [read], submit: [read, submit], admin: [read, submit, admin]}


@pytest.mark.parametrize(
    ("scope", "owner", "may"),
    [
        (Scope.READ, "ada", False),
        (Scope.SUBMIT, "ada", True),
        (Scope.SUBMIT, "bob", False),
        (Scope.ADMIN, "ada", True),
        (Scope.ADMIN, "bob", True),
    ],
)
def test_what_is_somebody_s_is_changed_by_them_or_an_admin(scope: Scope, owner: str, may: bool) -> None:
    with nullcontext() if may else pytest.raises(NotAllowed):
        Actor(owner, scope).check_may_change("it", "ada")
