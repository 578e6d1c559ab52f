"""The order of events of the one timed loop, with scripted steps and a clock that only the script moves."""

import itertools

import pytest

from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError
from workers.trainer.loops.training import Loop


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Script:
    """What the loop calls, written down in ``calls`` in the order they come; a step takes 1 s, half of it for input."""

    abilities = ("activity", "kernels", "layers", "memory")

    def __init__(self, clock, losses=None):
        self.clock = clock
        self.calls = []
        self.losses = iter(losses or itertools.repeat(1.5))

    def versions(self):
        return {"framework": "script", "version": "1", "libraries": {}}

    def join(self, job, process):
        return 1

    def build(self, job, process, watch):
        self.clock.now += 7.0
        self.batches = watch(self.slow_batches())
        return {"parameters": 3, "mathematics": {}, "device": "none"}

    def slow_batches(self):
        while True:
            self.clock.now += 0.5
            yield {"images": 4, "pixels": 100}

    def step(self):
        self.calls.append("step")
        work = next(self.batches)
        self.clock.now += 0.5
        return work

    def synchronize(self):
        self.calls.append("synchronize")

    def loss(self):
        self.calls.append("loss")
        self.clock.now += 100.0
        return next(self.losses)

    def activity(self, steps):
        self.calls.append("activity")
        self.clock.now += 2.5
        return {"active_s": 1.0, "elapsed_s": 2.0, "method": "script"}

    def kernels(self, steps):
        self.calls.append(("kernels", steps))
        self.clock.now += 3.0
        items = [[number % 3, 0, float(number), 0.5] for number in range(1100)]
        spans = {"names": ["a", "b", "c"], "lanes": ["stream 7"], "items": items}
        rows = [["a", 367, 183.5]]
        return {"steps": steps, "elapsed_s": 2.0, "active_s": 1.0, "method": "script", "rows": rows, "spans": spans}

    def layers(self, steps):
        self.calls.append(("layers", steps))
        self.clock.now += 4.0
        found = {"steps": steps, "elapsed_s": 2.0, "method": "script", "serialised": False}
        return dict(found, breakdown={}, rows=[], exchanges=[])

    def memory(self):
        self.calls.append("memory")
        return {"peak_bytes": 5, "method": "script"}

    def forget_peak(self):
        self.calls.append("forget_peak")
        return 7

    def weights(self, index):
        return iter(())


class Orders:
    """The control channel of one rank; ``stop_at`` is when somebody wants it to end."""

    def __init__(self, stop_at=None, reason="precise"):
        self.stop_at = stop_at
        self.reason = reason

    def join(self):
        pass

    def take_clocks(self):
        return []

    def turn(self, step, proposal):
        if self.stop_at is not None and step >= self.stop_at:
            return {"stop": self.reason}
        return {"stop": "max_steps"} if proposal is None else {"phase": proposal[0], "go": proposal[1]}


def run(max_steps=4, interval_s=0.0, losses=None, orders=None, profile=(), strategy=None):
    """Run a loop; return its events as (kind, data) and the calls on its adapter."""
    clock, events = Clock(), []
    adapter = Script(clock, losses)
    changes = {"interval_s": interval_s, "strategy": strategy or {}}
    job = read_job("sleep", "sleep", changes, max_steps=max_steps, profile=list(profile))

    def emit(kind, **data):
        events.append((kind, data))
        clock.now += 10.0

    loop = Loop(job, job.processes[0], adapter, orders or Orders(), emit, clock)
    try:
        loop.run()
    except TrainerError as failure:
        events.append(("failure", {"kind": failure.kind, "ranks": failure.ranks and list(failure.ranks)}))
    return events, adapter.calls


def of_kind(events, kind):
    return [data for name, data in events if name == kind]


def test_events_come_in_the_order_of_the_walk():
    events, _ = run(max_steps=2)
    assert [kind for kind, _ in events] == [
        "versions",
        "joined",
        "built",
        "interval",
        "loss",
        "interval",
        "loss",
        "stopped",
        "activity",
        "memory",
        "finished",
    ]


def test_an_interval_holds_its_steps_and_one_synchronisation_and_nothing_else():
    events, calls = run(max_steps=30, interval_s=4.0)
    for interval in of_kind(events, "interval"):
        assert interval["duration_s"] == pytest.approx(interval["n"] * 1.0)
        assert interval["input_s"] == pytest.approx(interval["n"] * 0.5)
        assert interval["work"] == {"images": 4 * interval["n"], "pixels": 100 * interval["n"]}
    assert calls[0] == "synchronize"
    assert "".join(call[0] for call in calls).replace("synchronize", "").startswith("sssl")


def test_steps_are_counted_from_one_over_warm_up_and_timed_together():
    events, _ = run(max_steps=30, interval_s=4.0)
    expected = 1
    for interval in of_kind(events, "interval"):
        assert interval["first_step"] == expected
        expected += interval["n"]
    assert of_kind(events, "stopped") == [{"step": 30, "reason": "max_steps"}]
    assert of_kind(events, "finished")[0]["steps"] == 30


def test_the_time_to_build_is_reported():
    events, _ = run()
    assert of_kind(events, "built")[0]["build_s"] == 7.0


def test_being_told_to_stop_ends_the_run_early_and_orderly():
    events, _ = run(max_steps=100, orders=Orders(stop_at=5))
    assert of_kind(events, "stopped") == [{"step": 5, "reason": "precise"}]
    assert events[-1][0] == "finished"


def test_a_cancelled_run_is_not_profiled():
    events, calls = run(max_steps=100, orders=Orders(stop_at=1, reason="cancelled"))
    assert "activity" not in calls
    assert of_kind(events, "finished")[0]["profiled_steps"] == 0


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_ends_the_run_at_the_next_boundary(loss):
    events, calls = run(max_steps=100, losses=[2.0, 1.0, loss])
    assert [data["step"] for data in of_kind(events, "loss")] == [1, 2, 3]
    assert events[-1] == ("failure", {"kind": "diverged", "ranks": [0]})
    assert calls.count("step") == 3


def test_profiling_phases_come_after_the_timed_one_and_their_cost_is_reported():
    events, _ = run(max_steps=2, profile=["kernels", "layers"])
    kinds = [kind for kind, _ in events]
    assert kinds[kinds.index("stopped") :] == [
        *["stopped", "activity", "kernels", "spans", "spans", "spans", "profiled", "layers", "profiled"],
        *["memory", "finished"],
    ]
    costs = [(data["profile"], data["steps"], data["elapsed_s"]) for data in of_kind(events, "profiled")]
    assert costs == [("kernels", 3, 3.0), ("layers", 3, 4.0)]
    assert of_kind(events, "finished")[0]["profiled_steps"] == 2 + 3 + 3


def test_the_cost_of_the_activity_is_reported_too():
    events, _ = run(max_steps=2)
    (activity,) = of_kind(events, "activity")
    assert activity["cost_s"] == 2.5


def test_the_timeline_of_kernels_comes_in_events_that_are_whole_in_themselves():
    events, _ = run(max_steps=2, profile=["kernels"])
    assert "spans" not in of_kind(events, "kernels")[0]
    found = of_kind(events, "spans")
    assert [len(data["items"]) for data in found] == [500, 500, 100]
    starts = [(data["names"][name], start) for data in found for name, _, start, _ in data["items"]]
    assert starts == [("abc"[number % 3], float(number)) for number in range(1100)]


def test_the_peak_of_memory_is_read_before_a_profiler_could_raise_it():
    _, calls = run(max_steps=2, profile=["layers", "kernels"])
    assert calls[-3:] == ["memory", ("kernels", 3), ("layers", 3)]


def test_the_peak_counts_from_the_first_timed_step_on_and_the_one_before_stands_beside_it():
    events, calls = run(max_steps=3)
    before = calls[: calls.index("forget_peak")]
    assert (before.count("step"), calls.count("forget_peak")) == (1, 1)
    assert next(data for kind, data in events if kind == "memory")["warmup_peak_bytes"] == 7


def test_profiling_phases_keep_to_the_multiple_of_steps_of_the_strategy():
    _, calls = run(max_steps=8, profile=["layers"], strategy={"step_multiple": 4})
    assert calls[-1] == ("layers", 4)


def test_the_profile_of_memory_is_not_made_by_the_process_that_was_timed():
    events, _ = run(max_steps=2, profile=["memory"])
    assert [kind for kind, _ in events][-3:] == ["activity", "memory", "finished"]


def test_a_cancelled_run_makes_no_profile():
    events, _ = run(max_steps=100, orders=Orders(stop_at=1, reason="cancelled"), profile=["kernels", "layers"])
    assert not of_kind(events, "profiled")


def test_a_profile_that_the_adapter_cannot_make_is_refused_before_the_first_step():
    events, calls = run(max_steps=2, profile=["heat"])
    assert events == [("failure", {"kind": "unsupported", "ranks": None})]
    assert not calls
