"""The nodes, and what a person may order of them."""

from fastapi import APIRouter, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, IdempotencyKey, Limit, WholeLimit, carried_out_once
from orchestrator.api.views.catalog import DeviceEventView, DeviceRecordView, NodeFactsView, NodeView
from orchestrator.api.views.common import PageView, answer, page_of, page_view
from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.placement import NodeState
from orchestrator.services.context import Context
from orchestrator.services.facts.checks import of_nodes
from orchestrator.services.facts.devices import clear, record_of
from orchestrator.services.facts.nodes import one_node, order_node, ordered_nodes

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=PageView[NodeView])
def list_nodes(context: Ctx, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """The nodes of the cluster by name."""
    return answer(page_of(ordered_nodes(context), lambda node: node.name, NodeView.of, limit, cursor))


@router.get("/checks", response_model=PageView[NodeFactsView])
def list_checks(context: Ctx) -> Response:
    """What each node says of itself to whoever checks it, asked now and side by side; `tbd doctor --nodes` makes
    findings of it. A node that does not answer within 20 s has a reason instead."""
    return answer(PageView[NodeFactsView](items=[NodeFactsView.of(one) for one in of_nodes(context)]))


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


@router.get("/{name}/devices/{device}", response_model=DeviceRecordView)
def get_device(context: Ctx, name: str, device: str, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """A device of the node, by its id, the beginning of it, or its driver's number, and what happened to it."""
    return answer(_record(context, name, device, limit, cursor))


@router.post("/{name}/devices/{device}/clear", response_model=DeviceRecordView)
def clear_device(context: Ctx, who: Who, name: str, device: str, key: IdempotencyKey = None) -> Response:
    """Take back what XIDs and crashes made of the device: it is well again, unless its driver says otherwise.
    Idempotent."""
    _, headers = carried_out_once(
        context,
        who.owner,
        key,
        ("clear", name, device),
        lambda: clear(context, one_node(context, name), device, who),
        lambda: None,
    )
    return answer(_record(context, name, device, 50, None), headers=headers)


def _record(context: Context, name: str, device: str, limit: int, cursor: str | None) -> DeviceRecordView:
    found = record_of(context, one_node(context, name), device, limit, cursor)
    return DeviceRecordView.of(found, events=page_view(found.events, DeviceEventView.of))


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
