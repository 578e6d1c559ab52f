"""Who may do what: tokens, their scopes, who asks, and the deeds that are kept of it. Pure: no clock, no chance."""

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import NotAllowed

# Whose an experiment is while it is imported, and while it is removed: no request is ever of these owners, and nobody
# sees what is theirs.
IMPORTING, REMOVING = HIDDEN = ("(importing)", "(removing)")
LOCAL = "local"  # who asks where nobody needs a token, and whose what was made then is
ID_PREFIX, SESSION_PREFIX = "tok", "ses"
OWNER_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}"
_TEXT = re.compile(r"tbd_([0-9a-z]{20})_([0-9a-f]{64})")
_COOKIE = re.compile(r"(ses_[0-9a-z]{20})_([0-9a-f]{64})")


class Scope(StrEnum):
    """What a token may do. Each level holds those before it."""

    READ = "read"  # look at everything that was measured
    SUBMIT = "submit"  # make experiments; cancel and remove one's own
    ADMIN = "admin"  # those of others too; order nodes, tokens, the audit trail

    def covers(self, needed: "Scope") -> bool:
        """Whether a token of this scope may do what ``needed`` is needed for."""
        levels = list(Scope)
        return levels.index(self) >= levels.index(needed)


class TokenState(StrEnum):
    USABLE = "usable"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Token:
    """A token as it is stored: without its secret. Times in seconds since the epoch; ``expires_at`` None: never."""

    id: str
    name: str
    owner: str
    scope: Scope
    secret_sha256: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None

    def matches(self, secret: str) -> bool:
        """Whether ``secret`` is its secret. How long that takes says nothing about where they differ."""
        return hmac.compare_digest(digest(secret), self.secret_sha256)

    def state(self, now: float) -> TokenState:
        if self.revoked_at is not None:
            return TokenState.REVOKED
        is_over = self.expires_at is not None and self.expires_at <= now
        return TokenState.EXPIRED if is_over else TokenState.USABLE


class Presented(NamedTuple):
    """What the text of a token says: the id, which is no secret, and the secret."""

    id: str
    secret: str


def digest(secret: str) -> str:
    """What is stored of a secret: SHA-256. A slow, salted hash is for passwords, which can be guessed; nobody tries out
    256 bits that chance has chosen, and each request is checked against this."""
    return hashlib.sha256(secret.encode()).hexdigest()


def text_of(token_id: str, secret: str) -> str:
    """The text that its holder keeps: ``tbd_<id>_<secret>``, in signs that need no quoting and can be searched for."""
    return f"tbd_{token_id.removeprefix(f'{ID_PREFIX}_')}_{secret}"


def presented(text: str) -> Presented | None:
    """What ``text_of`` wrote into ``text``; None where it is no token."""
    found = _TEXT.fullmatch(text)
    return Presented(f"{ID_PREFIX}_{found[1]}", found[2]) if found else None


@dataclass(frozen=True)
class Session:
    """That a browser came in by a token, which is not stored with it: as a row, without its secret. It is over when its
    token is, or at ``expires_at``, seconds since the epoch."""

    id: str
    token_id: str
    secret_sha256: str
    created_at: float
    expires_at: float

    def matches(self, secret: str) -> bool:
        """As of a token."""
        return hmac.compare_digest(digest(secret), self.secret_sha256)


def presented_cookie(text: str) -> Presented | None:
    """What a cookie says: ``<id of the session>_<secret>``; None where it is none of ours."""
    found = _COOKIE.fullmatch(text)
    return Presented(found[1], found[2]) if found else None


def form_secret(secret: str) -> str:
    """What the forms of a session carry: who was shown its pages knows it, and nobody finds the cookie from it."""
    return hmac.digest(secret.encode(), b"form", "sha256").hex()


@dataclass(frozen=True)
class Actor:
    """Who asks: an owner with a scope, by which token (None: none is needed here), and from which address."""

    owner: str
    scope: Scope
    token_id: str | None = None
    address: str | None = None

    def check_may_change(self, identifier: str, owner: str) -> None:
        """Refuse what only ``owner``, or an admin, may do with what is ``owner``'s.

        Raises:
            NotAllowed: it is somebody else's.
        """
        if self.scope is Scope.ADMIN or (self.scope is Scope.SUBMIT and self.owner == owner):
            return
        raise NotAllowed(f"{identifier} is {owner}'s: only {owner}, or a token of scope admin, may do this to it")


@dataclass(frozen=True)
class Deed:
    """Something that was done, and by whom. ``address`` is where the request came from; ``target`` an id or a name."""

    id: str
    at: float
    who: str
    token_id: str | None
    address: str | None
    action: str
    target: str


def is_shut_out(owner: str, tokens: Iterable[Token]) -> bool:
    """Whether ``owner`` was let in to submit, and every token for that has been revoked. That one has expired says
    nothing about its owner; and those who never had one were here before there were tokens."""
    theirs = [one for one in tokens if one.owner == owner and one.scope.covers(Scope.SUBMIT)]
    return bool(theirs) and all(one.revoked_at is not None for one in theirs)


class AccessStore(Protocol):
    """The part of the store that holds tokens and deeds. See ``ports.Store`` for what all its methods may raise."""

    def add_token(self, new: Token, deed: Deed) -> None:
        """Store a new token, and who made it."""

    def revoke_token(self, token_id: str, at: float, deed: Deed) -> Token:
        """Revoke it from ``at`` on; it as it is then. Idempotent: the first time stays."""

    def tokens(self, *, limit: int = 50, cursor: str | None = None) -> Page[Token]:
        """Newest first, also those that are over.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """

    def all_tokens(self) -> Page[Token]:
        """Every token there ever was, oldest first, on one page."""

    def add_session(self, new: Session, most: int, deed: Deed) -> None:
        """Store a new session, and that somebody came in by it. What is over by then goes, and of the sessions of its
        token the oldest, if there would be more than ``most``."""

    def end_session(self, session_id: str) -> None:
        """Remove it; nothing where it is not there."""

    def sessions(self, now: float) -> Sequence[Session]:
        """Those that are not over, whatever became of their tokens."""

    def note_use(self, token_ids: Sequence[str], at: float) -> None:
        """Note when these tokens were last used."""

    def deeds(
        self, *, who: str | None = None, target: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Deed]:
        """What was done, newest first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """
