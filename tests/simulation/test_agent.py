"""The simulated agent answers as the real one does, whatever it is asked in whatever order."""

import heapq
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.integration.node_attempts import NODE, UNEVEN, a_job, until
from tests.simulation.agent import Node
from workers.node.agent import Agent

FOREVER = 1e9
JOBS = st.sampled_from(["a", "b"])
CALLS = st.one_of(
    st.tuples(st.sampled_from(["start", "start_another", "acknowledge", "acknowledge_a_part"]), JOBS),
    st.tuples(st.just("stop"), JOBS, st.sampled_from(["cancelled", "timed_out"])),
    st.tuples(st.just("restart")),
)


class Quiet:
    """A world without bad luck, in which nothing ends by itself."""

    time = 0.0

    def __init__(self) -> None:
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (self.time + delay_s, self._numbers, call))

    def settle(self) -> None:
        end = self.time + 10.0
        while self._events and self._events[0][0] <= end:
            self.time, _, call = heapq.heappop(self._events)
            call()

    def between(self, least: float, most: float) -> float:
        return (least + most) / 2

    def began(self, node: str, attempt_id: str) -> None: ...

    def ended(self, node: str, attempt_id: str) -> None: ...

    def removed(self, node: str, attempt_id: str, entries: int) -> None: ...


class Pair:
    """A real agent and a simulated one, asked the same."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._world = folder, Quiet()
        self._node = Node(self._world, NODE, {}, FOREVER, lambda: FOREVER)
        self._jobs: dict[str, Any] = {name: a_job(options=UNEVEN, max_steps=10**6) for name in "ab"}
        self._stopped: set[str] = set()
        self.real = Agent(folder, NODE, fence_s=FOREVER)
        self._node.start_agent()

    def ask(self, call: tuple[str, ...]) -> None:
        method, *given = call
        if method == "restart":
            self.real.close()
            self.real = Agent(self._folder, NODE, fence_s=FOREVER)
            self._node.kill_agent()
            self._node.start_agent()
        else:
            answers = [self._one(agent, method, *given) for agent in (self.real, self._node.agent)]
            assert answers[0] == answers[1], call
        self._settle()
        assert self._state(self.real) == self._state(self._node.agent), call

    def _one(self, agent: Any, method: str, name: str, reason: str = "") -> Any:
        job = self._jobs[name]
        if method in ("start", "start_another"):
            return agent.start(job if method == "start" else {**job, "token": "another"})
        if method == "stop":
            self._stopped.add(job["attempt_id"])
            return agent.stop(job["attempt_id"], reason)["attempt_id"]  # whether it is quick is nobody's promise
        last = agent.fetch(job["attempt_id"])["last_seq"]
        return agent.acknowledge(job["attempt_id"], last - (method != "acknowledge"))["deleted"]

    def _settle(self) -> None:
        """Each begins what it was told to, and ends it."""
        self._world.settle()
        until(lambda: all(self._has_settled(one) for one in self.real.status()["attempts"]))

    def _has_settled(self, attempt: dict[str, Any]) -> bool:
        is_over = attempt["attempt_id"] not in self._stopped or attempt["state"] == "ended"
        return is_over and attempt["last_seq"] > 0

    def _state(self, agent: Any) -> list[Any]:
        """What it says of its attempts, and of their logs, but for how long these are."""
        said: list[Any] = [
            (one["attempt_id"], one["token_sha256"], one["state"], one["acknowledged"] > 0, one["ended_ago_s"] is None)
            for one in sorted(agent.status()["attempts"], key=lambda one: one["attempt_id"])
        ]
        for name in "ab":
            log = agent.fetch(self._jobs[name]["attempt_id"])
            last = log["entries"][-1] if log["ended"] and log["entries"] else None
            why = last and (last["kind"], last["data"]["failure"]["kind"])
            said.append((name, log["known"], log["ended"], log["last_seq"] > 0, why))
        return said


WHOLE = [("start", "a"), ("stop", "a", "cancelled"), ("acknowledge_a_part", "a"), ("acknowledge", "a"), ("start", "a")]
LATE = [("stop", "a", "timed_out"), ("start", "a"), ("start", "b"), ("restart",), ("acknowledge", "b"), ("restart",)]


@example(calls=[*WHOLE, ("start_another", "a")])
@example(calls=[*LATE, ("start", "b")])
@settings(max_examples=4, deadline=None, derandomize=True)
@given(calls=st.lists(CALLS, min_size=3, max_size=8))
def test_the_simulated_agent_answers_as_the_real_one(calls: list[tuple[str, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        try:
            for call in calls:
                pair.ask(call)
        finally:
            pair.real.close()
