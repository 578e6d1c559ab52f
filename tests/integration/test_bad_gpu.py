"""A GPU on which everything crashes costs attempts, and no cell: passes over the real store, with an end for each
attempt."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.runs.log import AttemptStatus
from orchestrator.domain.runs.run import Attempt, Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.health import DeviceState
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.devices import clear, open_events
from orchestrator.services.facts.nodes import one_node
from orchestrator.services.reconcile.conclude import conclude
from orchestrator.services.reconcile.decisions import Launch, decide
from orchestrator.services.reconcile.lanes import Lanes
from orchestrator.services.reconcile.situation import Lookout
from orchestrator.services.reconcile.trouble import Troubles
from tests.contract import store_scenes as scene
from tests.unit import builders as make

GPUS = 8
CRASH = Failure(FailureKind.CRASHED, "CUDA error: unspecified launch failure", ranks=(0,))


class EightGpus:
    """A node whose attempts never end by themselves."""

    def __init__(self, **facts: Any) -> None:
        self.node = make.node("n0", GPUS, "cuda", **facts)
        self.open: set[str] = set()

    def nodes(self) -> Sequence[Node]:
        return [self.node]

    def status(self, node: str) -> list[AttemptStatus]:
        return [AttemptStatus(attempt, "", False, 1) for attempt in self.open]

    def holds(self) -> list[str]:
        return []


class Service:
    """Passes of the reconciler over a store, and ends for the attempts."""

    def __init__(self, folder: Path, **facts: Any) -> None:
        self.store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
        self.cluster = EightGpus(**facts)
        self.context = Context(self.store, self.cluster, make.catalog(), SystemClock(), lambda: None)  # type: ignore[arg-type]
        self.running: list[tuple[Run, str]] = []
        self.used: Counter[str] = Counter()

    def look(self) -> Any:
        return Lookout(self.context, 60.0, Lanes(lambda: None), Troubles(self.context.clock)).look()

    def one_pass(self) -> None:
        for action in decide(self.look()):
            if isinstance(action, Launch):
                self._begin(action)

    def _begin(self, action: Launch) -> None:
        number = len(action.run.attempts) + 1
        attempt: Attempt = scene.attempt_of(action.run, number, placement=action.placement)
        assert self.store.begin_attempt(action.run.id, attempt)
        self.cluster.open.add(attempt.id)
        (device,) = action.placement.shares[0].devices
        self.used[device.id] += 1
        self.running.append((self.store.run(action.run.id), device.id))

    def end(self, chosen: tuple[Run, str], bad: str) -> None:
        self.running.remove(chosen)
        run, device = chosen
        assert run.attempt is not None
        self.cluster.open.discard(run.attempt.id)
        for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
            assert self.store.move_run(run.id, here, there, at=run.created_at)
        collecting = self.store.run(run.id)
        assert conclude(self.context, collecting, CRASH if device == bad else None, analysed=False)


@pytest.mark.parametrize(("exclusive", "crashes"), [("device", 3), ("node", 2)])
@pytest.mark.after_change
def test_of_200_cells_beside_a_bad_gpu_none_fails(tmp_path: Path, exclusive: str, crashes: int) -> None:
    service, chance = Service(tmp_path), random.Random(1)
    new = scene.experiment(repeats=1)
    runs = [one for seed in range(200) for one in scene.runs_for(new, seed=seed, device="cuda", exclusive=exclusive)]
    service.store.add_experiment(new, runs)
    service.one_pass()
    while service.running:
        for chosen in chance.sample(service.running, k=min(4, len(service.running))):
            service.end(chosen, bad="cuda:0")
        service.one_pass()
    states = Counter(run.state for run in service.store.runs_of(new.id))
    assert states == {RunState.COMPLETED: 200}
    assert service.used["cuda:0"] <= crashes
    (node,) = service.look().nodes
    assert list(node.of_state(DeviceState.SUSPECT)) == ["cuda:0"]
    service.store.close()


def test_a_device_is_cleared_while_it_trains_and_what_comes_after_counts_anew(tmp_path: Path) -> None:
    told = [{"device": "cuda:3", "xid": code, "at": 1e9 + code} for code in (79, 13)]
    service = Service(tmp_path, gpu_xids=told, boot_id="b", gpus=[{"id": "cuda:3", "number": "3", "name": "H100"}])
    (node,) = service.look().nodes
    assert list(node.of_state(DeviceState.BAD)) == ["cuda:3"]
    assert len(node.devices_of("cuda")) == GPUS - 1
    assert "79" in node.gpus_withheld["cuda:3"]
    who = Actor("ada", Scope.ADMIN, None, None)
    clear(service.context, one_node(service.context, "n0"), "3", who)
    (node,) = service.look().nodes  # the agent goes on to tell of the same errors
    assert (dict(node.health), open_events(service.context)) == ({}, [])
    service.cluster.node.inventory["gpu_xids"].append({"device": "cuda:3", "xid": 79, "at": 2e9})  # type: ignore[index]
    (node,) = service.look().nodes
    assert list(node.of_state(DeviceState.BAD)) == ["cuda:3"]
    assert [deed.action for deed in service.store.deeds().items] == ["device clear"]
    service.store.close()
