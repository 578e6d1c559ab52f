"""The nodes, and what a person may order of them."""

from fastapi import APIRouter, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, IdempotencyKey, WholeLimit, carried_out_once
from orchestrator.api.views.catalog import NodeView
from orchestrator.api.views.common import PageView, answer, page_of
from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.placement import NodeState
from orchestrator.services.context import Context
from orchestrator.services.facts.nodes import one_node, order_node, ordered_nodes

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=PageView[NodeView])
def list_nodes(context: Ctx, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """The nodes of the cluster by name."""
    return answer(page_of(ordered_nodes(context), lambda node: node.name, NodeView.of, limit, cursor))


@router.post("/{name}/drain", response_model=NodeView)
def drain_node(context: Ctx, who: Who, name: str, key: IdempotencyKey = None) -> Response:
    """Place no new runs on the node; those on it go on. Idempotent."""
    return _ordered(context, who, name, key, NodeState.DRAINING)


@router.post("/{name}/quarantine", response_model=NodeView)
def quarantine_node(context: Ctx, who: Who, name: str, key: IdempotencyKey = None) -> Response:
    """Place no new runs on the node, because its results are not believed. Idempotent."""
    return _ordered(context, who, name, key, NodeState.QUARANTINED)


@router.post("/{name}/resume", response_model=NodeView)
def resume_node(context: Ctx, who: Who, name: str, key: IdempotencyKey = None) -> Response:
    """Take back what was ordered of the node. Idempotent."""
    return _ordered(context, who, name, key, None)


def _ordered(context: Context, who: Actor, name: str, key: str | None, state: NodeState | None) -> Response:
    node, headers = carried_out_once(
        context,
        who.owner,
        key,
        ("order", name, state),
        lambda: order_node(context, name, state, who),
        lambda: one_node(context, name),
    )
    return answer(NodeView.of(node), headers=headers)
