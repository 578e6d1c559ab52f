"""Is the server alive, is it ready, what does it speak. Outside ``/api/v1``."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from orchestrator.api.docs_page import docs_page
from orchestrator.api.requests import Ctx
from orchestrator.api.views.common import View, answer

router = APIRouter(tags=["health"])


class HealthView(View):
    """The server answers."""

    status: str = "ok"


class ReadyView(View):
    """The server can do its work: the database takes writes, the cluster answers."""

    status: str = "ready"
    nodes: int


_OK = HealthView()


@router.get("/healthz", response_model=HealthView)
def get_health() -> Response:
    """Alive: says nothing about the database or the cluster."""
    return answer(_OK)


@router.get("/docs", include_in_schema=False)
def get_docs(request: Request) -> Response:
    """The description of all paths, for a person."""
    return HTMLResponse(docs_page(request.app.openapi()))


@router.get("/readyz", response_model=ReadyView)
def get_ready(context: Ctx) -> Response:
    """Ready; else a problem (503) that says what is away."""
    context.store.ping()
    return answer(ReadyView(nodes=len(context.cluster.nodes())))
