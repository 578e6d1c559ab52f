"""Make tokens, revoke them, exchange them for sessions of browsers, and tell by what a request presents who asks."""

import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from orchestrator.domain.around import access
from orchestrator.domain.around.access import LOCAL, Actor, Deed, Scope, Session, Token, TokenState
from orchestrator.domain.asked.spec import StrictModel, problems_of
from orchestrator.domain.ports import Clock, Store
from orchestrator.domain.words.errors import InvalidRequest, NotAuthenticated, NotFound, Problem, StoreUnavailable
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context

DAY_S = 86400.0
DEFAULT_DAYS = 90.0
LONGEST_DAYS = 36500.0
# How old the server's knowledge of the tokens may be: a token that was revoked is refused after this time.
REFRESH_S = 1.0
SESSION_S = 7 * DAY_S  # judgements: a working week; and more browsers than a person has
MOST_SESSIONS = 20  # of one token
USE_NOTED_S = 60.0  # when a token was last used is stored this often, at most

NO_TOKEN = (
    "a token is needed here: send the header 'Authorization: Bearer TOKEN'; the command line takes it from TBD_TOKEN, "
    "TBD_TOKEN_FILE or ~/.config/tbd/token. Who runs the server makes one: tbd token add NAME"
)
NO_SESSION = "this session is over: sign in again"
WRONG_TOKEN = "this token is not known here: who runs the server makes one with tbd token add NAME"


class TokenRequest(StrictModel):
    """A token to be made. ``owner`` is whose its experiments are, ``name`` if it is not given; tokens of one owner
    share them, so that one can replace another."""

    name: Annotated[str, Field(pattern=f"^{access.OWNER_PATTERN}$", description="for people: what it is for, or whose")]
    scope: Literal["read", "submit", "admin"] = "submit"
    owner: Annotated[str, Field(pattern=f"^{access.OWNER_PATTERN}$")] | None = None
    expires_days: Annotated[float, Field(gt=0, le=LONGEST_DAYS)] | None = Field(
        default=DEFAULT_DAYS, description="after so many days it is refused; null: never"
    )


def add(store: Store, clock: Clock, body: Any, by: Actor) -> tuple[Token, str]:
    """Store a new token; (it, its text, which nobody can tell again).

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest([Problem("", "a token is asked for by an object of fields, such as {name: ada}")])
    try:
        asked = TokenRequest.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(TokenRequest, body, error)) from None
    now, secret = clock.now(), secrets.token_hex(32)
    new = Token(
        id=new_id(access.ID_PREFIX),
        name=asked.name,
        owner=asked.owner or asked.name,
        scope=Scope(asked.scope),
        secret_sha256=access.digest(secret),
        created_at=now,
        expires_at=None if asked.expires_days is None else now + asked.expires_days * DAY_S,
    )
    store.add_token(new, deed_of(by, now, f"token add {new.scope.value}", new.id))
    return new, access.text_of(new.id, secret)


def revoke(store: Store, clock: Clock, wanted: str, by: Actor) -> Token:
    """Revoke the token with the id ``wanted``, or the only usable one of that name; it as it is then. Idempotent.

    Raises:
        NotFound: there is none.
        InvalidRequest: several that can be used have the name; the text lists them.
    """
    now = clock.now()
    if not wanted.startswith(f"{access.ID_PREFIX}_"):
        wanted = _named(store, wanted, now)
    return store.revoke_token(wanted, now, deed_of(by, now, "token revoke", wanted))


def _named(store: Store, name: str, now: float) -> str:
    found = [one for one in store.all_tokens().items if one.name == name and one.state(now) is TokenState.USABLE]
    if not found:
        raise NotFound("usable token", name)
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise InvalidRequest(
            [Problem("", f"{len(found)} usable tokens are called {name!r}; revoke one by its id: {ids}")]
        )
    return found[0].id


def begin_session(store: Store, clock: Clock, by: Actor) -> tuple[Session, str]:
    """Store a session of who came in by a token; (it, the text of its cookie, which nobody can tell again)."""
    assert by.token_id is not None, "who needs no token needs no session"
    now, secret = clock.now(), secrets.token_hex(32)
    new = Session(new_id(access.SESSION_PREFIX), by.token_id, access.digest(secret), now, now + SESSION_S)
    store.add_session(new, MOST_SESSIONS, deed_of(by, now, "sign in", by.token_id))
    return new, f"{new.id}_{secret}"


def deed_of(by: Actor, at: float, action: str, target: str) -> Deed:
    """What ``by`` does, for the audit trail."""
    return Deed(new_id("deed"), at, by.owner, by.token_id, by.address, action, target)


class Gate:
    """Tells who asks, from tokens as they were at most ``REFRESH_S`` ago. Its user calls ``refresh`` when ``is_fresh``
    says no; other requests cost no look at the database. For several threads.

    Args:
        always: a token is needed even where there is none yet: the server can be reached from other machines.
    """

    def __init__(self, context: Context, always: bool) -> None:
        self._context = context
        self._tokens: dict[str, Token] = {}
        self._sessions: dict[str, Session] = {}
        self._closed = always  # for good: a database that is replaced by an empty one opens nothing
        self._looked_at: float | None = None
        self._away: StoreUnavailable | None = None
        self._is_known = False
        self._used: set[str] = set()
        self._noted: dict[str, float] = {}
        self._looking = threading.Lock()

    def is_fresh(self) -> bool:
        """Whether what it knows may still be used."""
        return self._looked_at is not None and self._context.clock.monotonic() - self._looked_at < REFRESH_S

    def forget(self) -> None:
        """Have the next request look again: a token was made or revoked here."""
        self._looked_at = None

    def refresh(self) -> None:
        """Look at the database. Who comes meanwhile waits for the same look."""
        with self._looking:
            if self.is_fresh():
                return
            try:
                found = self._context.store.all_tokens()
                living = self._context.store.sessions(self._context.clock.now()) if found.items else ()
                self._tokens = {one.id: one for one in found.items}
                self._sessions = {one.id: one for one in living}
                self._closed = self._closed or bool(found.items or found.damaged)
                self._is_known, self._away = True, None
            except StoreUnavailable as error:
                self._away = error
            self._looked_at = self._context.clock.monotonic()
        with suppress(StoreUnavailable):  # what is not noted now will be with a later use
            self._note_use()

    @property
    def is_closed(self) -> bool:
        """Whether every request needs a token: as soon as there ever was one."""
        return self._closed

    @property
    def look(self) -> float | None:
        """When it looked last, by the monotonic clock: another look may have another answer."""
        return self._looked_at

    def admit(self, text: str | None, address: str | None, cookie: str | None = None) -> Actor:
        """Who asks, by the text of a token; where there is none, by that of a session's cookie.

        Raises:
            NotAuthenticated: it is not one of ours, or not any more.
            StoreUnavailable: nobody can tell now.
        """
        if self._away is not None and not self._is_known:
            raise self._away
        if not self._closed:
            return Actor(LOCAL, Scope.ADMIN, None, address)
        if text is None and cookie is None:
            raise NotAuthenticated(NO_TOKEN)
        if self._away is not None:
            raise self._away
        token = self._of_session(cookie or "") if text is None else self._presented(text)
        state = token.state(self._context.clock.now())
        if state is not TokenState.USABLE:
            raise NotAuthenticated(f"the token {token.name} ({token.id}) is {state.value}: ask for a new one")
        self._used.add(token.id)
        return Actor(token.owner, token.scope, token.id, address)

    def _presented(self, text: str) -> Token:
        shown = access.presented(text)
        token = self._tokens.get(shown.id) if shown else None
        if shown is None or token is None or not token.matches(shown.secret):
            raise NotAuthenticated(WRONG_TOKEN)
        return token

    def _of_session(self, cookie: str) -> Token:
        """The token by which a session came in: the session is over when the token is."""
        shown = access.presented_cookie(cookie)
        session = self._sessions.get(shown.id) if shown else None
        if shown is None or session is None or not session.matches(shown.secret):
            raise NotAuthenticated(NO_SESSION)
        token = self._tokens.get(session.token_id)
        if token is None or session.expires_at <= self._context.clock.now():
            raise NotAuthenticated(NO_SESSION)
        return token

    def _note_use(self) -> None:
        """Store which tokens were used lately: to the minute, and never with the request itself."""
        now = self._context.clock.monotonic()
        used, self._used = self._used, set()
        due = sorted(one for one in used if now - self._noted.get(one, -USE_NOTED_S) >= USE_NOTED_S)
        if due:
            self._context.store.note_use(due, self._context.clock.now())
            self._noted |= dict.fromkeys(due, now)


def has_usable_admin(store: Store, clock: Clock) -> bool:
    """Whether there is a token of scope admin that can be used now."""
    now = clock.now()
    return any(one.scope is Scope.ADMIN and one.state(now) is TokenState.USABLE for one in store.all_tokens().items)
