"""A client that goes away in the middle of a live stream has done nothing wrong: no traceback for it."""

import anyio
from starlette.types import ASGIApp, Receive, Scope, Send


class GoneClient:
    """ASGI middleware. FastAPI's live streams raise when their reader has closed the connection; that ends here."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except* anyio.BrokenResourceError:
            pass
