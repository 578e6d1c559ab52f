"""One step between the profiler's marks. No framework, no GPU."""

import pytest

from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError
from workers.trainer.loops import counters


class Adapter:
    def __init__(self, told):
        self._told = told

    def join(self, job, process):
        return 1

    def build(self, job, process, watch):
        self._told.append("build")

    def step(self):
        self._told.append("step")

    def synchronize(self):
        self._told.append("synchronize")


class Channel:
    def join(self):
        pass


def counted(world_size=1):
    told, events = [], []
    marks = (lambda: told.append("start"), lambda: told.append("stop"))

    def emit(kind, **data):
        events.append((kind, data))

    job = read_job("sleep", "sleep", ranks=world_size)
    counters.counted_step(job, job.processes[0], Adapter(told), Channel(), emit, None, iter([1.0, 3.5]).__next__, marks)
    return told, events


def test_exactly_one_step_lies_between_the_marks_and_the_device_is_done_with_the_others():
    told, events = counted()
    start, stop = told.index("start"), told.index("stop")
    assert told[start + 1 : stop] == ["step", "synchronize"]
    assert told[start - 1] == "synchronize"
    assert told[:start].count("step") == counters.WARM_UP_STEPS
    assert events[-1] == ("profiled", {"profile": "counters", "steps": 1, "elapsed_s": 2.5})


def test_several_ranks_are_refused_for_a_replayed_exchange_would_wait_for_ever():
    with pytest.raises(TrainerError) as caught:
        counted(world_size=2)
    assert caught.value.kind == "unsupported"


def test_a_host_without_a_driver_is_unsupported(monkeypatch):
    monkeypatch.setattr(counters.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("no such file")))
    with pytest.raises(TrainerError) as caught:
        counters.profiler_marks()
    assert caught.value.kind == "unsupported"
