"""Refuses request bodies over the limit: by their announced length, and while they arrive in chunks."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.problems import problem


class _TooLarge(Exception):  # noqa: N818 - a signal between the two functions below
    pass


class BodyLimit:
    """ASGI middleware. Answers 413 without reading further than ``max_body_bytes``."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        if _announced(scope) > self._limit:
            await self._refuse(scope, receive, send)
            return
        started = False
        seen = 0

        async def counted_receive() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
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
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is larger than {self._limit} bytes (TBD_MAX_BODY_BYTES)"
        answer = problem(scope["path"], 413, "body-too-large", detail, headers={"Connection": "close"})
        await answer(scope, receive, send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
