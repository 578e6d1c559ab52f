"""What a pass looks at: a queue that is long, or that waits for nodes that are not there."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.domain.placement import Node
from orchestrator.domain.run import Run
from orchestrator.services.reconcile import Launch, Observer, decide
from tests.unit import builders as make

MOST = 3


class Queue:
    """A store in which runs are queued, and nothing else is."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self.asked = 0

    def unfinished_runs(self, most_queued: int, after_queued: int = 0) -> Sequence[Run]:
        self.asked += 1
        return self.runs[after_queued : after_queued + most_queued]

    def node_orders(self) -> dict[str, Any]:
        return {}

    def active_experiments(self) -> list[Any]:
        return []


def observer(queue: Queue, nodes: Sequence[Node], monkeypatch: pytest.MonkeyPatch) -> Observer:
    monkeypatch.setattr(Observer, "MOST_QUEUED", MOST)
    cluster = SimpleNamespace(nodes=lambda: nodes, status=lambda node: [])
    context: Any = SimpleNamespace(store=queue, cluster=cluster, clock=SimpleNamespace(monotonic=lambda: 0.0))
    return Observer(context, fence_s=60.0)


def elsewhere(number: int) -> list[Run]:
    """Queued runs for a node that is not there."""
    return [make.run(f"far_{index}", plan=make.plan(node_names=("elsewhere",))) for index in range(number)]


def test_runs_that_fit_no_node_hold_up_nobody_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue([*elsewhere(2 * MOST + 1), make.run("near")])
    view = observer(queue, [make.node()], monkeypatch).observe()
    assert [action.run.id for action in decide(view) if isinstance(action, Launch)] == ["near"]
    assert [run.id for run in view.runs][:MOST] == ["far_0", "far_1", "far_2"]


def test_only_the_head_of_a_queue_that_fits_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue([*elsewhere(MOST - 1), *(make.run(f"near_{index}") for index in range(10 * MOST))])
    view = observer(queue, [make.node()], monkeypatch).observe()
    assert (queue.asked, len(view.runs)) == (1, MOST)


def test_a_queue_that_fits_nowhere_is_read_to_its_end_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(elsewhere(2 * MOST))
    view = observer(queue, [make.node()], monkeypatch).observe()
    assert queue.asked == 3
    assert not any(isinstance(action, Launch) for action in decide(view))
