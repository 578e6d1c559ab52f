"""Refuses request bodies over the limit: by their announced length, and while they arrive in chunks."""

from collections.abc import Mapping
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.problems import problem


class _TooLarge(Exception):  # noqa: N818 - a signal between the two functions below
    pass


class Limit(NamedTuple):
    """A number of bytes, and the setting that it comes from."""

    size: int
    setting: str


class BodyLimit:
    """ASGI middleware. Answers 413 without reading further than the limit of the path (``special``, else ``usual``)."""

    def __init__(self, app: ASGIApp, usual: Limit, special: Mapping[str, Limit]) -> None:
        self._app = app
        self._usual = usual
        self._special = special

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        limit = self._special.get(scope["path"], self._usual)
        if _announced(scope) > limit.size:
            await _refuse(limit, scope, receive, send)
            return
        started = False
        seen = 0

        async def counted_receive() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit.size:
                raise _TooLarge
            return message

        async def noted_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted_receive, noted_send)
        except _TooLarge:
            if started:
                raise
            await _refuse(limit, scope, receive, send)


async def _refuse(limit: Limit, scope: Scope, receive: Receive, send: Send) -> None:
    detail = f"the body is larger than {limit.size} bytes ({limit.setting})"
    answer = problem(scope["path"], 413, "body-too-large", detail, headers={"Connection": "close"})
    await answer(scope, receive, send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
