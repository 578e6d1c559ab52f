"""The FastAPI application. ``orchestrator.app`` makes its context and serves it."""

import time
from collections.abc import Callable
from functools import cache

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.routing import BaseRoute

from orchestrator.api import openapi, problems, received
from orchestrator.api.door.access import Door, allowed, check_scopes, wrong_tokens
from orchestrator.api.door.body_limit import BodyLimit, Limit
from orchestrator.api.door.careful_headers import CarefulHeaders
from orchestrator.api.door.gone_client import GoneClient
from orchestrator.api.door.head import Head
from orchestrator.api.door.visitors import Visitors
from orchestrator.api.requests import only_known_parameters, only_offered_media_types
from orchestrator.api.routers import (
    alerts,
    catalog,
    experiments,
    exports,
    history,
    lookup,
    nightly,
    observations,
    probes,
    profiles,
    results,
    runs,
    schedules,
    streams,
)
from orchestrator.api.routers.intake import imports, ingest
from orchestrator.api.routers.operate import audit, health, nodes, tokens, webhooks
from orchestrator.api.routers.s_sgd import predictions, waterfall
from orchestrator.serve.settings import Settings
from orchestrator.services.context import Context
from orchestrator.services.tokens import Gate

DESCRIPTION = "Measures how fast deep neural networks train. Errors are problem+json; lists are pages; times are UTC."


def create_app(context: Context, settings: Settings, *, stopping: Callable[[], bool] = lambda: False) -> FastAPI:
    """Make the application.

    Args:
        context: the adapters; they stay the caller's to close.
        settings: of them the API reads ``host``, ``allowed_hosts``, ``rate_limit`` and the sizes of bodies.
        stopping: tells the live streams that the server is about to stop, so that they end.
    """
    app = FastAPI(
        title="tbd",
        version="1",
        description=DESCRIPTION,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        routes=paths(),
    )
    app.state.context = context
    app.state.stopping = stopping
    app.state.imports = received.one_at_a_time()
    app.add_middleware(GoneClient)
    usual = Limit(settings.max_body_bytes, "TBD_MAX_BODY_BYTES")
    logs = Limit(settings.max_log_bytes, "TBD_MAX_LOG_BYTES")
    app.add_middleware(BodyLimit, usual=usual, special=dict.fromkeys(("/api/v1/ingest", "/api/v1/imports"), logs))
    app.add_middleware(Head)
    gate = app.state.gate = Gate(context, always=not settings.on_loopback)
    wrong = app.state.wrong_tokens = wrong_tokens(time.monotonic, settings.rate_limit)
    app.add_middleware(Door, gate=gate, wrong=wrong, monotonic=time.monotonic, rate=settings.rate_limit)
    app.add_middleware(Visitors, allowed_hosts=settings.own_names)
    app.add_middleware(CarefulHeaders)  # the last one added is the first one asked
    problems.install(app)
    openapi.install(app)
    return app


async def _strict(request: Request) -> None:
    """What every route below /api/v1 depends on; one function, because FastAPI spends as much on each dependency as
    these do."""
    await allowed(request)
    await only_known_parameters(request)
    await only_offered_media_types(request)


@cache
def paths() -> list[BaseRoute]:
    """All paths, in the order in which they are tried; of no application, so that each is prepared once a process."""
    api = APIRouter(dependencies=[Depends(_strict)], responses=problems.RESPONSES)
    parts = (streams, experiments, schedules, nightly, alerts, runs, profiles, waterfall, results, observations)
    others = (catalog, nodes, probes, predictions, history, exports, imports, ingest, lookup)
    routers = [part.router for part in (*parts, *others, tokens, webhooks, audit)]
    check_scopes(routers)
    for router in routers:
        api.include_router(router)
    whole = APIRouter(generate_unique_id_function=openapi.operation_id)
    whole.include_router(api, prefix="/api/v1")  # with a prefix here, FastAPI prepares a path when it is asked for
    whole.include_router(health.router, responses=problems.RESPONSES)
    return whole.routes
