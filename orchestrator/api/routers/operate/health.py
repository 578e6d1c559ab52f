"""Is the server alive, is it ready, what does it speak. Outside ``/api/v1``."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from orchestrator.api.docs_page import docs_page
from orchestrator.api.requests import Ctx
from orchestrator.api.views.common import View, answer
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.words.errors import ClusterUnavailable, NodeUnreachable
from orchestrator.services.context import Context

router = APIRouter(tags=["health"])


class HealthView(View):
    """The server answers."""

    status: str = "ok"


class ReadyView(View):
    """The server can do its work: the database takes writes, the cluster answers, runs are looked after. A follower
    leaves that to the ``leader`` (where that answers, and its host; null: there is none at present)."""

    status: str = "ready"
    role: Literal["leader", "follower"]
    leader: str | None
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
def get_readiness(context: Ctx, node: Annotated[str | None, Query(max_length=253)] = None) -> Response:
    """Ready; else a problem (503) that says what is away. With the name or the address of a ``node``: whether that node
    has joined and offers devices."""
    context.store.ping()
    if missed := context.pulse.missed(context.clock.monotonic()):
        raise ClusterUnavailable(missed)
    if node is not None:
        _check_node(context, node)
    leader = context.store.leader()
    ready = ReadyView(
        role="leader" if context.store.leads() else "follower",
        leader=f"{leader.url} on {leader.host}" if leader else None,
        nodes=len(context.cluster.nodes()),
    )
    return answer(ready)


def _check_node(context: Context, name: str) -> None:
    found = [node for node in context.cluster.nodes() if name in (node.name, node.address)]
    answering = [node for node in found if node.state is not NodeState.UNREACHABLE]
    if not found:
        raise NodeUnreachable(name, "it has not joined")
    if not answering:
        raise NodeUnreachable(name, found[0].reason or "it does not answer")
    if not any(node.devices for node in answering):
        raise NodeUnreachable(name, "it has joined and offers no devices")
