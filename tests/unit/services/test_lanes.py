"""What hangs in a lane keeps no other waiting, and little of a pass."""

import threading
import time

from orchestrator.services.reconcile.lanes import MOST_AT_ONCE, Lanes


def settled_s(lanes: Lanes, lane: str) -> float:
    began = time.monotonic()
    lanes.settle([lane])
    return time.monotonic() - began


def test_a_lane_that_was_late_is_hardly_waited_for_also_after_it_was_in_time_once() -> None:
    """A node whose calls hang: it is lost, which it answers at once, and found again, and hangs."""
    told = threading.Event()
    lanes, free = Lanes(told.set, patience_s=2.0), threading.Event()
    lanes.put("node", free.wait)
    assert settled_s(lanes, "node") >= 2.0
    free.set()
    assert told.wait(10.0), "what comes late is told"
    lanes.put("node", lambda: None)
    lanes.settle(["node"])
    again = threading.Event()
    lanes.put("node", again.wait)
    assert settled_s(lanes, "node") < 2.0
    again.set()


def test_work_of_a_lane_is_done_in_its_order_and_beside_that_of_others() -> None:
    done: list[str] = []
    lanes, free = Lanes(lambda: None, patience_s=60.0), threading.Event()
    lanes.put("a", lambda: (free.wait(), done.append("first"))[1])
    lanes.put("a", lambda: done.append("second"))
    lanes.put("b", lambda: (done.append("beside"), free.set())[1])
    lanes.settle(["a", "b"])
    assert done == ["beside", "first", "second"]


def test_of_a_thousand_lanes_all_are_settled_by_as_few_threads_as_may_work_at_once() -> None:
    """Also where threads begin late, as on a busy host."""
    done: list[int] = []
    workers: set[int] = set()
    lanes = Lanes(lambda: None, patience_s=60.0)
    for lane in range(1000):
        lanes.put(f"{lane}", lambda lane=lane: (done.append(lane), workers.add(threading.get_ident()))[0])  # type: ignore[misc]
    lanes.settle([f"{lane}" for lane in range(1000)])
    assert sorted(done) == list(range(1000))
    assert len(workers) <= MOST_AT_ONCE
