"""The nodes, and what a person may order of them."""

from fastapi import APIRouter, Response

from orchestrator.api.requests import Ctx, IdempotencyKey
from orchestrator.api.views.catalog import NodeView, node_view
from orchestrator.api.views.common import PageView, answer
from orchestrator.domain.placement import NodeState
from orchestrator.services.nodes import order_node, ordered_nodes

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=PageView[NodeView])
def get_nodes(context: Ctx) -> Response:
    """All nodes of the cluster."""
    return answer(PageView[NodeView](items=[node_view(node) for node in ordered_nodes(context)]))


@router.post("/{name}/drain", response_model=NodeView)
def post_drain(context: Ctx, name: str, key: IdempotencyKey = None) -> Response:
    """Place no new runs on the node; those on it go on. Idempotent."""
    return answer(node_view(order_node(context, name, NodeState.DRAINING)))


@router.post("/{name}/quarantine", response_model=NodeView)
def post_quarantine(context: Ctx, name: str, key: IdempotencyKey = None) -> Response:
    """Place no new runs on the node, because its results are not believed. Idempotent."""
    return answer(node_view(order_node(context, name, NodeState.QUARANTINED)))


@router.post("/{name}/resume", response_model=NodeView)
def post_resume(context: Ctx, name: str, key: IdempotencyKey = None) -> Response:
    """Take back what was ordered of the node. Idempotent."""
    return answer(node_view(order_node(context, name, None)))
