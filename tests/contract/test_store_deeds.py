"""The contract of the store: a deed is stored with what was done, or neither is. On SQLite and on PostgreSQL."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.db.access import deeds
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.device_health import DeviceEvent, EventKind
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.runs.stored import Idempotency
from orchestrator.domain.words.errors import Conflict, IdempotencyMismatch, NotFound
from orchestrator.services.clock import new_id
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def deed(action: str, target: str = "x") -> Deed:
    return Deed(new_id("deed"), 1.0, "ada", None, None, action, target)


def done(store: SqlStore) -> list[str]:
    return sorted(one.action for one in store.deeds().items)


def test_what_was_done_and_who_did_it_are_stored_together_or_not_at_all(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, (run,) = scene.submitted(store)
    new = scene.experiment()

    def fails(*_: object) -> None:
        raise RuntimeError("the trail cannot be written")

    acts: list[Callable[[], object]] = [
        lambda: store.add_experiment(new, scene.runs_for(new), None, deed("submit")),
        lambda: store.cancel_run(run.id, 2.0, deed("cancel run")),
        lambda: store.cancel_experiment(experiment.id, 2.0, deed("cancel")),
        lambda: store.order_node("n0", NodeState.DRAINING, deed("drain")),
        lambda: store.remove_experiment(experiment.id, deed("remove")),
        lambda: store.end_device_events("n0", "GPU-1", 3.0, [EventKind.XID], None, deed("clear")),
    ]
    xid = DeviceEvent("n0", "GPU-1", 1.0, EventKind.XID, "XID 79", 79)
    assert [store.add_device_events([xid, xid]), store.add_device_events([xid])] == [1, 0]
    with monkeypatch.context() as broken:
        broken.setattr(deeds, "record", fails)
        for act in acts:
            with pytest.raises(RuntimeError):
                act()
    with pytest.raises(NotFound):
        store.experiment(new.id)
    assert not store.run(run.id).cancel_requested
    assert not store.experiment(experiment.id).cancel_requested
    assert store.node_orders() == {}
    assert store.open_device_events(0.0) == [xid]
    assert done(store) == []
    for act in acts:
        act()
    assert done(store) == ["cancel", "cancel run", "clear", "drain", "remove", "submit"]
    assert store.device_events("n0", "GPU-1").items == [replace(xid, ended_at=3.0)]
    assert store.open_device_events(0.0) == []


def test_what_changes_nothing_or_is_refused_is_no_deed(store: SqlStore) -> None:
    experiment, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.RUNNING)
    with pytest.raises(Conflict):
        store.remove_experiment(experiment.id, deed("remove"))
    with pytest.raises(NotFound):
        store.cancel_experiment("nobody", 2.0, deed("cancel"))
    for _ in range(2):
        store.cancel_experiment(experiment.id, 2.0, deed("cancel"))
        store.cancel_run(run.id, 2.0, deed("cancel run"))  # its experiment's cancellation was its own
        store.order_node("n0", NodeState.DRAINING, deed("drain"))
        store.order_node("n1", None, deed("resume"))
    assert done(store) == ["cancel", "drain"]
    key = Idempotency("ada", "key", "digest")
    first = scene.experiment()
    for _ in range(2):
        store.add_experiment(first, [], key, deed("submit"))
    with pytest.raises(IdempotencyMismatch):
        store.add_experiment(scene.experiment(), [], Idempotency("ada", "key", "other"), deed("submit"))
    assert done(store) == ["cancel", "drain", "submit"]


def test_deeds_outlive_what_they_tell_of(store: SqlStore) -> None:
    experiment, _ = scene.submitted(store)
    store.remove_experiment(experiment.id, deed("remove", experiment.id))
    assert [one.action for one in store.deeds(target=experiment.id).items] == ["remove"]
