"""The FastAPI application. ``orchestrator.app`` makes its context and serves it."""

from collections.abc import Callable

from fastapi import APIRouter, Depends, FastAPI

from orchestrator.api import openapi, problems
from orchestrator.api.body_limit import BodyLimit, Limit
from orchestrator.api.gone_client import GoneClient
from orchestrator.api.head import Head
from orchestrator.api.requests import only_known_parameters, only_offered_media_types
from orchestrator.api.routers import (
    calibrations,
    catalog,
    experiments,
    health,
    ingest,
    lookup,
    netbench,
    nodes,
    observations,
    profiles,
    results,
    runs,
    streams,
)
from orchestrator.api.visitors import Visitors
from orchestrator.services.context import Context
from orchestrator.settings import Settings

DESCRIPTION = "Measures how fast deep neural networks train. Errors are problem+json; lists are pages; times are UTC."


def create_app(context: Context, settings: Settings, *, stopping: Callable[[], bool] = lambda: False) -> FastAPI:
    """Make the application.

    Args:
        context: the adapters; they stay the caller's to close.
        settings: of them the API reads ``max_body_bytes``, ``max_log_bytes`` and ``allowed_hosts``.
        stopping: tells the live streams that the server is about to stop, so that they end.
    """
    app = FastAPI(
        title="tbd", version="1", description=DESCRIPTION, redirect_slashes=False, docs_url=None, redoc_url=None
    )
    app.state.context = context
    app.state.stopping = stopping
    app.state.imports = ingest.one_at_a_time()
    app.add_middleware(GoneClient)
    usual = Limit(settings.max_body_bytes, "TBD_MAX_BODY_BYTES")
    logs = Limit(settings.max_log_bytes, "TBD_MAX_LOG_BYTES")
    app.add_middleware(BodyLimit, usual=usual, special={"/api/v1/ingest": logs})
    app.add_middleware(Head)
    app.add_middleware(Visitors, allowed_hosts=settings.allowed_hosts)  # the last one added is the first one asked
    problems.install(app)
    strict = [Depends(only_known_parameters), Depends(only_offered_media_types)]
    api = APIRouter(prefix="/api/v1", dependencies=strict, responses=problems.RESPONSES)
    parts = (streams, experiments, runs, profiles, results, observations, catalog, nodes, netbench, calibrations)
    for part in (*parts, ingest, lookup):
        api.include_router(part.router)
    app.include_router(api)
    app.include_router(health.router, responses=problems.RESPONSES)
    openapi.install(app)
    return app
