"""Signing in and out: a browser exchanges a token for a session, because it can present no token itself."""

import logging

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.api.door.access import address_of, cookie_name, cookie_of, count_wrong
from orchestrator.api.problems import answer_to
from orchestrator.domain.around import access
from orchestrator.domain.words.errors import NotAllowed, NotAuthenticated, StoreUnavailable, TooManyRequests
from orchestrator.services.context import Context
from orchestrator.services.tokens import SESSION_S, Gate, begin_session
from orchestrator.web.page import Asked, Page, moved, read_form, rendered

log = logging.getLogger(__name__)


async def show_login(request: Request) -> Response:
    """The form of one field; on a server that needs no token, that it needs none."""
    await run_in_threadpool(request.app.state.gate.refresh)
    return _form(request, None, 200)


async def login(request: Request) -> Response:
    """Exchange the token of the form for a session. Whoever sends wrong ones is slowed down as everywhere."""
    gate: Gate = request.app.state.gate
    context: Context = request.app.state.context
    address = address_of(request.scope)
    form = await read_form(request)
    try:
        await run_in_threadpool(gate.refresh)
        actor = gate.admit(form.get("token", "").strip(), address)
        if actor.token_id is None:
            return moved(_local(form.get("next", "")))
        _, text = await run_in_threadpool(begin_session, context.store, context.clock, actor)
    except NotAuthenticated as error:
        try:
            count_wrong(request.app.state.wrong_tokens, address)
        except TooManyRequests as too_many:
            return answer_to(request.url.path, too_many)
        log.warning("refused: sign in from %s: %s", address, error)
        return _form(request, str(error), 401)
    except StoreUnavailable as error:
        return answer_to(request.url.path, error)
    gate.forget()
    answer = moved(_local(form.get("next", "")))
    _set_cookie(request, answer, text, int(SESSION_S))
    return answer


async def logout(asked: Asked) -> Page | Response:
    """End the session of this browser; those of others stay."""
    state = asked.request.app.state
    shown = access.presented_cookie(cookie_of(asked.request.scope) or "")
    if shown is None:
        raise NotAllowed("this browser has no session: there is nothing to end")
    await run_in_threadpool(state.context.store.end_session, shown.id)
    state.gate.forget()
    answer = moved("/login")
    _set_cookie(asked.request, answer, "", 0)
    return answer


def _set_cookie(request: Request, answer: Response, text: str, seconds: int) -> None:
    """No script reads it, no other site has it sent, and what came by https goes by https only."""
    answer.set_cookie(
        cookie_name(request.scope),
        text,
        max_age=seconds,
        path="/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )


def _form(request: Request, problem: str | None, status: int) -> Response:
    content = {
        "problem": problem,
        "next": _local(request.query_params.get("next", "")),
        "is_open": not request.app.state.gate.is_closed,
    }
    return rendered(request, Page("login.html", "Sign in", lambda: content, status=status))


def _local(path: str) -> str:
    """A path of this site, whatever the URL said: never one of another (``//host``, ``/\\host``)."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"
