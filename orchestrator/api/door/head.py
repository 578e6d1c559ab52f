"""HEAD is GET without the body: FastAPI's routes know nothing of it."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """ASGI middleware. Has HEAD carried out as GET, sends its head only, and ends it then, also where it streams."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def gone_when_begun() -> Message:
            """To a stream, the client goes away as soon as it has the head."""
            await begun.wait()
            return {"type": "http.disconnect"}

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                begun.set()

        await self._app({**scope, "method": "GET"}, gone_when_begun, send_head)
        await send({"type": "http.response.body", "body": b""})
