"""The REST application for who only looks, without a server: the routes of ``server`` that are asked by GET.

Nobody is asked who they are: who may read the database may look at it. Of the routers only those are imported that the
requests need, for a command imports them each time.
"""

import importlib

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from orchestrator.api import problems
from orchestrator.api.requests import only_known_parameters
from orchestrator.services.context import Context

# The modules of routers, in the order in which they are tried. First those that import neither numpy nor scipy.
PARTS = (
    *("experiments", "lookup", "catalog", "runs", "schedules", "streams"),
    *("operate.nodes", "operate.tokens", "operate.audit", "operate.webhooks"),
    *("results", "history", "nightly", "alerts", "profiles", "s_sgd.waterfall"),
    *("exports", "observations", "probes", "s_sgd.predictions", "intake.imports"),
)


class Looking:
    """ASGI application over ``context``, whose store is only read. Live streams end after what there is."""

    def __init__(self, context: Context) -> None:
        self._app = FastAPI(openapi_url=None, redirect_slashes=False)
        self._app.state.context = context
        self._app.state.stopping = lambda: True
        problems.install(self._app)
        self._untried = list(PARTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while not self._has(scope) and self._untried:
            self._add(self._untried.pop(0))
        await self._app(scope, receive, send)

    def _has(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in self._app.routes)

    def _add(self, part: str) -> None:
        router: APIRouter = importlib.import_module(f"orchestrator.api.routers.{part}").router
        looks = [route for route in router.routes if isinstance(route, APIRoute) and "GET" in (route.methods or ())]
        self._app.include_router(
            APIRouter(routes=list(looks)), prefix="/api/v1", dependencies=[Depends(only_known_parameters)]
        )
