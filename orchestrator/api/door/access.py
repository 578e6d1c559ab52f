"""The door: who asks, whether they may, and how often. What stands in no table here nobody may do.

Requests are told apart before any of their body is read. A stream that lasts longer than its token is cut off.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import anyio
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.door.rate_limit import Buckets
from orchestrator.api.problems import answer_to
from orchestrator.domain.around import access
from orchestrator.domain.around.access import Actor
from orchestrator.domain.words.errors import NotAllowed, NotAuthenticated, StoreUnavailable, TbdError, TooManyRequests
from orchestrator.domain.words.untrusted import visible
from orchestrator.services.tokens import Gate

READ, SUBMIT, ADMIN = access.Scope.READ, access.Scope.SUBMIT, access.Scope.ADMIN

# What needs no token: whether the server is there, what it speaks, and how one comes in.
OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", "/login", "/static/style.css", "/static/live.js"})

# (method, path below /api/v1) -> the scope that it needs. A route that is missing here keeps the server from starting.
NEEDED: Mapping[tuple[str, str], access.Scope] = {
    ("GET", "/experiments"): READ,
    ("GET", "/experiments/{experiment_id}"): READ,
    ("GET", "/experiments/{experiment_id}/runs"): READ,
    ("GET", "/experiments/{experiment_id}/results"): READ,
    ("GET", "/experiments/{experiment_id}/comparisons"): READ,
    ("GET", "/experiments/{experiment_id}/side-by-side"): READ,
    ("GET", "/experiments/{experiment_id}/scaling"): READ,
    ("GET", "/experiments/{experiment_id}/events"): READ,
    ("GET", "/experiments/{experiment_id}/record"): READ,
    ("GET", "/runs"): READ,
    ("GET", "/runs/{run_id}"): READ,
    ("GET", "/runs/{run_id}/measurements"): READ,
    ("GET", "/runs/{run_id}/intervals"): READ,
    ("GET", "/runs/{run_id}/readings"): READ,
    ("GET", "/runs/{run_id}/time-series"): READ,
    ("GET", "/runs/{run_id}/log"): READ,
    ("GET", "/runs/{run_id}/events"): READ,
    ("GET", "/runs/{run_id}/memory"): READ,
    ("GET", "/runs/{run_id}/kernels"): READ,
    ("GET", "/runs/{run_id}/kernels/changes"): READ,
    ("GET", "/runs/{run_id}/layers"): READ,
    ("GET", "/runs/{run_id}/trace"): READ,
    ("GET", "/runs/{run_id}/reanalysis"): READ,
    ("GET", "/runs/{run_id}/waterfall"): READ,
    ("GET", "/results"): READ,
    ("GET", "/compare"): READ,
    ("GET", "/comparisons"): READ,
    ("GET", "/export"): READ,
    ("GET", "/imports"): READ,
    ("GET", "/history"): READ,
    ("GET", "/history/{series}"): READ,
    ("GET", "/observations"): READ,
    ("GET", "/models"): READ,
    ("GET", "/frameworks"): READ,
    ("GET", "/datasets"): READ,
    ("GET", "/nodes"): READ,
    ("GET", "/nodes/checks"): READ,
    ("GET", "/netbench"): READ,
    ("GET", "/calibrations"): READ,
    ("GET", "/predictions"): READ,
    ("GET", "/lookup"): READ,
    ("GET", "/schedules"): READ,
    ("GET", "/schedules/{schedule_id}"): READ,
    ("GET", "/schedules/{schedule_id}/fires"): READ,
    ("GET", "/nightly"): READ,
    ("GET", "/alerts"): READ,
    ("GET", "/alerts/equal-arms"): READ,
    ("GET", "/alerts/{alert_id}"): READ,
    ("POST", "/experiments"): SUBMIT,
    ("POST", "/experiments/{experiment_id}/cancel"): SUBMIT,
    ("POST", "/experiments/{experiment_id}/pause"): SUBMIT,
    ("POST", "/experiments/{experiment_id}/resume"): SUBMIT,
    ("POST", "/experiments/{experiment_id}/extend"): SUBMIT,
    ("DELETE", "/experiments/{experiment_id}"): SUBMIT,
    ("POST", "/schedules"): SUBMIT,
    ("PATCH", "/schedules/{schedule_id}"): SUBMIT,
    ("DELETE", "/schedules/{schedule_id}"): SUBMIT,
    ("POST", "/schedules/{schedule_id}/run"): SUBMIT,
    ("POST", "/runs/{run_id}/cancel"): SUBMIT,
    ("POST", "/alerts/{alert_id}/acknowledge"): SUBMIT,
    ("POST", "/compare"): SUBMIT,
    ("POST", "/predictions"): SUBMIT,
    ("POST", "/netbench"): SUBMIT,
    ("POST", "/calibrations"): SUBMIT,
    ("POST", "/ingest"): SUBMIT,
    ("POST", "/imports"): SUBMIT,
    ("DELETE", "/imports/{point_id}"): SUBMIT,
    ("POST", "/nodes/{name}/drain"): ADMIN,
    ("POST", "/nodes/{name}/quarantine"): ADMIN,
    ("POST", "/nodes/{name}/resume"): ADMIN,
    ("GET", "/nodes/{name}/devices/{device}"): READ,
    ("POST", "/nodes/{name}/devices/{device}/clear"): ADMIN,
    ("GET", "/tokens"): ADMIN,
    ("POST", "/tokens"): ADMIN,
    ("POST", "/tokens/{token_id}/revoke"): ADMIN,
    ("GET", "/audit"): ADMIN,
    ("GET", "/webhooks"): ADMIN,
    ("POST", "/webhooks"): ADMIN,
    ("DELETE", "/webhooks/{webhook_id}"): ADMIN,
    ("POST", "/webhooks/{webhook_id}/test"): ADMIN,
}

# The same of pages (``orchestrator.web``), by their whole path. What a page shows or does it asks REST for, as the same
# caller: what stands here opens nothing that does not stand above.
PAGES: Mapping[tuple[str, str], access.Scope] = {
    ("GET", "/"): READ,
    ("GET", "/experiments"): READ,
    ("GET", "/experiments/{experiment_id}"): READ,
    ("GET", "/runs"): READ,
    ("GET", "/runs/{run_id}"): READ,
    ("GET", "/results"): READ,
    ("GET", "/history"): READ,
    ("GET", "/history/{series}"): READ,
    ("GET", "/compare"): READ,
    ("GET", "/observations"): READ,
    ("GET", "/nodes"): READ,
    ("GET", "/schedules"): READ,
    ("GET", "/schedules/{schedule_id}"): READ,
    ("GET", "/new"): READ,
    ("POST", "/logout"): READ,
    ("POST", "/experiments/{experiment_id}"): SUBMIT,
    ("POST", "/runs/{run_id}"): SUBMIT,
    ("POST", "/schedules/{schedule_id}"): SUBMIT,
    ("POST", "/new"): SUBMIT,
    ("POST", "/nodes"): ADMIN,
}

# Judgements. A page of results asks for a dozen things at once; scripts that ask more often are better off waiting.
RATE, BURST_S = 50.0, 4.0
STREAM = "text/event-stream"
WATCHED_S = 0.5  # between two looks whether who follows a stream still may
WRONG_RATE, WRONG_BURST = 1.0, 20.0  # failed attempts of one address
TOLD_RATE, TOLD_BURST = 1.0, 30.0  # lines of the log about refusals

_ACTOR = "tbd.actor"
log = logging.getLogger(__name__)


async def allowed(request: Request) -> None:
    """Refuse what the caller may not do. Every route below /api/v1 depends on this, before all else.

    Raises:
        NotAllowed: the token does not reach as far; the text says what does.
    """
    check_scope(actor_in(request.scope), NEEDED.get((request.method, request.scope["route"].path)))


def actor_in(scope: Scope) -> Actor | None:
    """Who asks, as the door has found; None where it has not looked."""
    found: Actor | None = scope.get(_ACTOR)
    return found


def check_scope(actor: Actor | None, needed: access.Scope | None) -> None:
    """Refuse what ``actor`` may not do. Raises as ``allowed``."""
    if actor is not None and needed is not None and actor.scope.covers(needed):
        return
    has = "no token was looked at" if actor is None else f"that of {actor.owner} is of scope {actor.scope}"
    raise NotAllowed(f"this needs a token of scope {needed or 'none that exists'}; {has}")


async def actor_of_request(request: Request) -> Actor:
    """Who asks, as the door has found. (async: see ``requests``.)"""
    actor: Actor = request.scope[_ACTOR]
    return actor


def routes_of(parts: Iterable[APIRouter]) -> set[tuple[str, str]]:
    """(method, path) of every route of ``parts``."""
    routes = [route for part in parts for route in part.routes]
    return {(method, route.path) for route in routes if isinstance(route, APIRoute) for method in route.methods or ()}


def check_scopes(parts: Iterable[APIRouter]) -> None:
    """Raises AssertionError where a route has no line in ``NEEDED``, or a line has no route."""
    check_lines(routes_of(parts), NEEDED, "NEEDED")


def check_lines(routes: set[tuple[str, str]], lines: Mapping[tuple[str, str], access.Scope], name: str) -> None:
    """The same of (method, path) of any routes, and the lines of a table."""
    differing = routes ^ set(lines)
    if differing:
        raise AssertionError(f"say in {__name__}.{name} who may do this, or remove its line: {sorted(differing)}")


def wrong_tokens(monotonic: Callable[[], float], rate: float | None) -> Buckets:
    """Counts the tokens that addresses send and that are not accepted. ``rate``: as of ``Door``."""
    return Buckets(WRONG_RATE if rate != 0 else 0.0, WRONG_BURST, monotonic)


def count_wrong(wrong: Buckets, address: str) -> None:
    """Raises TooManyRequests."""
    _check_rate(wrong, address, "tokens that are not accepted were sent")


class Door:
    """ASGI middleware. Lets in whoever presents a usable token, and everybody while there has never been a token.

    Args:
        gate: knows the tokens.
        wrong: of ``wrong_tokens``.
        rate: requests a second of one caller; 0: any; None: ``RATE`` for those that have a token, else any.
    """

    def __init__(
        self, app: ASGIApp, gate: Gate, wrong: Buckets, monotonic: Callable[[], float], rate: float | None
    ) -> None:
        self._app = app
        self.gate = gate
        self._open_rate = Buckets(rate or 0.0, max(1.0, (rate or 0.0) * BURST_S), monotonic)
        closed = RATE if rate is None else rate
        self._rate = Buckets(closed, max(1.0, closed * BURST_S), monotonic)
        self._wrong = wrong
        self._told = Buckets(TOLD_RATE, TOLD_BURST, monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope[_ACTOR] = await self._let_in(scope)
        except TbdError as error:
            await answer_to(scope["path"], error)(scope, receive, send)
            return
        await _Guarded(self, scope, send).carry_out(self._app, receive)

    async def _let_in(self, scope: Scope) -> Actor | None:
        """Who it is; None where nobody asks.

        Raises:
            NotAuthenticated, TooManyRequests, StoreUnavailable: it is not let in.
        """
        address = address_of(scope)
        if scope["path"] in OPEN:
            _check_rate(self._rate if self.gate.is_closed else self._open_rate, address)
            return None
        try:
            actor = await self.actor(scope)
        except NotAuthenticated as error:
            self.tell(scope, str(error))
            count_wrong(self._wrong, address)
            raise
        _check_rate(self._rate if actor.token_id else self._open_rate, actor.token_id or address)
        return actor

    async def actor(self, scope: Scope) -> Actor:
        """Who it is by now, with a look at the database where the last one is too old. Raises as ``Gate.admit``."""
        if not self.gate.is_fresh():
            await run_in_threadpool(self.gate.refresh)
        headers = Headers(scope=scope)
        cookie = None if "authorization" in headers else _cookie(scope)
        return self.gate.admit(_bearer(headers), address_of(scope), cookie)

    def tell(self, scope: Scope, why: str) -> None:
        """Say in the server's log that a request was refused; not too often."""
        if not self._told.take("log"):
            log.warning("refused: %s", visible(f"{scope['method']} {scope['path']} from {address_of(scope)}: {why}"))


class _Guarded:
    """Looks again, while an answer goes out in many parts, whether the token is still one of ours; notes refusals."""

    def __init__(self, door: Door, scope: Scope, send: Send) -> None:
        self._door = door
        self._scope = scope
        self._send = send
        self._look = door.gate.look
        self._watching: asyncio.Task[None] | None = None
        self._is_over = False

    async def carry_out(self, app: ASGIApp, receive: Receive) -> None:
        """Have ``app`` answer. A stream ends with its token, also one that has nothing to tell."""
        try:
            await app(self._scope, receive, self.send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_over or task is None:
                raise
            task.uncancel()
        finally:
            if self._watching is not None:
                self._watching.cancel()

    async def _watch(self, task: "asyncio.Task[Any] | None") -> None:
        while not self._is_over:
            await asyncio.sleep(WATCHED_S)
            if not self._is_still_let_in():
                try:
                    await self._still_let_in()
                except anyio.BrokenResourceError:
                    self._is_over = True
        if task is not None:
            task.cancel()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and self._is_watched(message):
            self._watching = asyncio.create_task(self._watch(asyncio.current_task()))
        if message.get("status") == HTTPStatus.FORBIDDEN:
            actor: Actor | None = self._scope[_ACTOR]
            self._door.tell(self._scope, f"{actor.owner} ({actor.scope}) may not" if actor else "it may not")
        if message.get("more_body") and not self._is_still_let_in():
            await self._still_let_in()
        await self._send(message)

    def _is_watched(self, start: Message) -> bool:
        is_stream = Headers(raw=start["headers"]).get("content-type", "").startswith(STREAM)
        return is_stream and self._door.gate.is_closed and self._scope[_ACTOR] is not None

    def _is_still_let_in(self) -> bool:
        """Whether nothing was looked at since the last time, nor should be."""
        gate = self._door.gate
        return self._scope[_ACTOR] is None or (gate.is_fresh() and gate.look == self._look)

    async def _still_let_in(self) -> None:
        """Raises BrokenResourceError, as if the client had gone (``gone_client``), when the token is over. While the
        database is away nobody can tell, and nothing is shown either."""
        try:
            with suppress(StoreUnavailable):
                await self._door.actor(self._scope)
        except NotAuthenticated:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            raise anyio.BrokenResourceError from None
        self._look = self._door.gate.look


def _check_rate(buckets: Buckets, caller: str, what: str = "requests were sent") -> None:
    wait_s = buckets.take(caller)
    if wait_s:
        raise TooManyRequests(f"too many {what}: try again in {wait_s:.1f} s (TBD_RATE_LIMIT)", wait_s)


def _bearer(headers: Headers) -> str | None:
    """The token that the request presents; None where it has none, or several."""
    sent = headers.getlist("authorization")
    scheme, _, text = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return text.strip() if scheme.lower() == "bearer" else None


def cookie_name(scope: Scope) -> str:
    """What the cookie of a session is called: browsers keep those of all ports of a host together. ``__Host-``: no
    other host, and no page in clear, can set it (RFC 6265bis, section 4.1.3)."""
    host = Headers(scope=scope).get("host", "")
    port = host.rpartition(":")[2]
    return f"{'__Host-' if scope['scheme'] == 'https' else ''}tbd-{port if port.isdigit() else 'session'}"


def cookie_of(scope: Scope) -> str | None:
    """The text of the session's cookie that a request brings."""
    return Request(scope).cookies.get(cookie_name(scope))


def _cookie(scope: Scope) -> str | None:
    """The same where it counts: it opens pages, and of REST what only looks. All else takes a token, or a form with the
    secret of the session."""
    is_rest = scope["path"].startswith("/api/")
    return None if is_rest and scope["method"] not in ("GET", "HEAD") else cookie_of(scope)


def address_of(scope: Scope) -> str:
    """Where the request comes from: what a proxy that is believed (TBD_PROXIES) says, else the other end."""
    client = scope.get("client")
    return visible(str(client[0]))[:64] if client else "unknown"
