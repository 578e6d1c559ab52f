"""The loop of a netbench: sizes, pairs, checks, the time budget, all ranks alike. No network, no clock."""

import contextlib

import pytest

from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Device
from workers.trainer.loops import netbench
from workers.trainer.loops.netbench import head_of, rescale_every
from workers.trainer.loops.netbench_plan import LEAST, MOST, OPERATIONS, Pace, cases, in_between, pairs, sizes


def a_job(nodes, devices, **options):
    processes = [
        {"name": f"worker{rank}", "node": f"n{rank // devices}", "ranks": [rank], "role": "worker", "devices": []}
        for rank in range(nodes * devices)
    ]
    changes = {"processes": processes, "world_size": nodes * devices}
    options = {"max_bytes": 16, "budget_s": 10.0, **options}
    return read_job("netbench", "x", changes, strategy="ddp", options=options)


def test_sizes_are_powers_of_two_up_to_the_largest():
    assert sizes(16) == [4, 8, 16]
    assert sizes(31) == [4, 8, 16]
    assert sizes(2**28)[-1] == 2**28
    assert len(sizes(2**28)) == 27


@pytest.mark.parametrize(
    ("nodes", "devices", "wanted"), [(1, 2, [(0, 1)]), (2, 1, [(0, 1)]), (3, 2, [(0, 2), (0, 4)]), (1, 4, [(0, 1)])]
)
def test_messages_go_between_nodes_where_there_are_several(nodes, devices, wanted):
    assert pairs(a_job(nodes, devices)) == wanted


def test_everything_is_measured_idle_first_and_then_with_busy_cores():
    found = cases(a_job(2, 1), OPERATIONS)
    assert found[0] == (False, "point_to_point", (0, 1), 4)
    assert [case[0] for case in found] == [False] * 12 + [True] * 12


def test_what_a_library_has_not_is_not_measured():
    assert {case[1] for case in cases(a_job(2, 1), ("all_reduce", "push"))} == {"push", "all_reduce"}


def times(jump_s):
    """By size: latency and rate, and more latency above 4 KiB."""
    return {size: 1e-4 + size * 1e-9 + jump_s * (size > 4096) for size in sizes(2**16)}


AT_THE_JUMP = [2560, 3072, 3584, 5120, 6144, 7168, 10240, 12288, 14336]


def test_where_a_library_changes_what_it_does_the_gaps_beside_are_divided_and_nowhere_else():
    assert in_between(times(0.0)) == []
    assert sorted(in_between(times(1e-3))) == AT_THE_JUMP
    assert sorted(in_between(times(-0.5e-4))) == AT_THE_JUMP


def test_sizes_between_small_ones_are_those_of_whole_numbers():
    assert in_between({4: 1.0, 8: 9.0, 16: 1.0}) == [12]
    assert in_between({8: 1.0, 16: 9.0, 32: 1.0}) == [12, 20, 24, 28]


def test_the_widest_miss_comes_first():
    found = times(1e-3)
    found[64] *= 1.14
    assert sorted(in_between(found)[:9]) == AT_THE_JUMP
    assert in_between(found)[9:] == [40, 48, 56, 80, 96, 112]


def test_a_size_between_two_is_expected_to_take_as_long_as_the_larger_one():
    pace = Pace(10.0, lambda: 0.0, [])
    case = (True, "all_reduce", (0, 1), 2**12 + 2**11)
    assert not pace.has_time(case)
    pace.repetitions((True, "all_reduce", (0, 1), 2**13), 10.0 / 23)
    assert pace.has_time(case)
    pace.repetitions((True, "all_reduce", (0, 1), 2**13), 10.1 / 23)
    assert not pace.has_time(case)


@pytest.mark.parametrize("growth", [2, 3, 8, 64, 4096])
def test_a_sum_in_place_never_leaves_the_range_of_fp32(growth):
    assert growth ** (rescale_every(growth) + 1) * growth < 3e38


def test_a_pace_times_a_size_for_about_a_second():
    pace = Pace(100.0, lambda: 0.0, [])
    assert pace.repetitions((False, "all_reduce", (0, 1), 4), 0.1) == 10
    assert pace.repetitions((False, "all_reduce", (0, 1), 4), 1e-6) == MOST
    assert pace.repetitions((False, "all_reduce", (0, 1), 4), 30.0) == LEAST


def test_a_small_budget_costs_repetitions_before_it_costs_sizes():
    cases_of_a_load = [(False, "all_reduce", (0, 1), 4 << k) for k in range(10)]
    pace = Pace(8.0, lambda: 0.0, cases_of_a_load)
    assert pace.warm_up(cases_of_a_load[0]) > 0
    # a tenth of the 4 s for idle cores, less the least of the nine to come, which take 23 times 10 ms each
    assert pace.repetitions(cases_of_a_load[0], 0.01) == int((4.0 - 9 * 0.23) / 10 / 0.01)
    for case in cases_of_a_load[1:]:
        pace.warm_up(case)
    assert pace.repetitions(cases_of_a_load[-1], 0.01) == 100


def test_the_least_of_large_messages_is_kept_for_them():
    large = [(False, "all_reduce", (0, 1), 2**power) for power in range(17, 20)]
    pace = Pace(2 * (2 + 4) * 5 * 0.1, lambda: 0.0, large)
    pace.warm_up(large[0])
    assert pace.repetitions(large[0], 0.1) == LEAST  # twice and four times as long, 2 + 3 times each


def test_a_pace_leaves_out_what_takes_longer_than_what_is_left_and_all_larger_sizes():
    now = [0.0]
    small, middle, large = [(False, "all_reduce", (0, 1), size) for size in (4, 8, 16)]
    pace = Pace(100.0, lambda: now[0], [small, middle, large])
    assert pace.warm_up(small) > 0
    pace.repetitions(small, 3.0)
    assert pace.warm_up(middle) == 0
    assert pace.warm_up(large) == 0


@pytest.mark.parametrize(("seconds", "fits"), [(25.0 / 23, True), (25.1 / 23, False)])
def test_slow_messages_between_two_ranks_leave_their_share_to_what_all_do_together(seconds, fits):
    first, second = [(False, "point_to_point", (0, 1), size) for size in (4, 8)]
    together = (False, "all_reduce", (0, 1), 4)
    pace = Pace(100.0, lambda: 0.0, [first, second, together])
    pace.warm_up(first)
    pace.repetitions(first, seconds)
    assert (pace.warm_up(second) > 0) is fits  # 20 + 3 of them in half of the 50 s for idle cores
    pace.repetitions(together, 50.0 / 23)
    assert pace.has_time((False, "all_reduce", (0, 1), 8))  # what is left is all for the last


def test_a_pace_keeps_half_of_the_time_for_busy_cores():
    now = [60.0]
    pace = Pace(100.0, lambda: now[0] - 60.0, [])
    now[0] = 111.0
    assert pace.warm_up((False, "all_reduce", (0, 1), 4)) == 0
    assert pace.warm_up((True, "all_reduce", (0, 1), 4)) > 0


def test_processes_of_a_node_keep_each_core_busy_once(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3, 4})
    job = a_job(1, 2)
    assert [netbench.cores_of(job, process) for process in job.processes] == [[0, 2, 4], [1, 3]]
    with_cores = job.processes[0]._replace(devices=(Device("cpu:6-7", "cpu", (7, 6)),))
    assert netbench.cores_of(job, with_cores) == [6, 7]


@pytest.fixture
def kept_busy(monkeypatch):
    """Cores that were to be kept busy, one list for each time; none is."""
    found = []
    monkeypatch.setattr(netbench, "busy_cores", lambda cores: found.append(list(cores)) or contextlib.nullcontext())
    return found


class Alone:
    """Stands for the library: sums and answers come from what the other rank is known to hold."""

    library, device = "fake", "cpu"
    operations = ("point_to_point", "all_reduce")
    mean = False

    def __init__(self, wrong=False, queues=False):
        self.scaled, self.wrong, self.size, self.queues = [], wrong, 0, queues
        self.waits = 0

    def fill(self, count, heads):
        self.size = count
        self.vectors = [list(head) for head in heads]

    def all_reduce(self):
        others = head_of(1, self.size)
        self.vectors = [[a + b for a, b in zip(self.vectors[0], others, strict=True)]]

    def heads(self, count):
        return [[value + self.wrong for value in self.vectors[0][:count]]]

    def received(self, count):
        return [[value + self.wrong for value in head_of(1, count)]]

    def send(self, rank):
        assert rank == 1

    receive = send

    def scale(self, factor):
        self.scaled.append(factor)

    def synchronize(self):
        self.waits += 1

    def close(self):
        pass


class Channel:
    """Of one rank; ``stop_at`` a turn. ``between``: what rank 0 says of sizes between others, where this is another."""

    def __init__(self, stop_at=None, between=None):
        self.turns, self.stop_at = [], stop_at
        self.between = iter(between) if between else None

    def turn(self, step, proposal):
        assert step == len(self.turns)
        self.turns.append(proposal)
        if len(self.turns) == self.stop_at:
            return {"stop": "cancelled"}
        if proposal and proposal[0] == "between" and self.between:
            return {"phase": "between", "go": next(self.between)}
        return {"stop": "max_steps"} if proposal is None else {"phase": proposal[0], "go": proposal[1]}


def a_loop(library, channel, together=False, **options):
    job = a_job(1, 2, **options)
    if together:
        job = job._replace(processes=(job.processes[0]._replace(ranks=(0, 1)),))
    told = []
    clock = iter(range(10**9))
    loop = netbench.Netbench(
        job,
        job.processes[0],
        None,
        channel,
        lambda kind, **data: told.append((kind, data)),
        lambda: next(clock) * 1e-3,
    )
    loop._exchange, loop._pace = library, Pace(1e6, lambda: 0.0, cases(job, library.operations))
    return loop, told


def test_rank_0_reports_every_operation_size_and_load(kept_busy):
    loop, told = a_loop(Alone(), Channel())
    assert loop._measure() == "max_steps"
    assert kept_busy[0] == []
    assert kept_busy[1]
    found = [(data["busy_cores"], data["operation"], data["bytes"]) for kind, data in told]
    names = ("point_to_point", "all_reduce")
    assert found == [(busy, name, size) for busy in (False, True) for name in names for size in (4, 8, 16)]
    assert all(len(data["duration_s"]) == data["repetitions"] == MOST for _, data in told)
    assert {(data["operation"], data["ways"]) for _, data in told} == {("point_to_point", 2), ("all_reduce", 1)}


def test_a_run_that_is_to_stop_ends_between_two_sizes(kept_busy):
    loop, told = a_loop(Alone(), Channel(stop_at=3))
    assert loop._measure() == "cancelled"
    assert len(told) == 1


def test_a_wrong_sum_or_message_ends_the_run(kept_busy):
    loop, _ = a_loop(Alone(wrong=True), Channel())
    with pytest.raises(TrainerError, match="point_to_point of 1 numbers by fake gave wrong"):
        loop._measure()
    loop, _ = a_loop(Alone(wrong=True), Channel())
    loop._exchange.fill(4, [head_of(0, 4)])
    with pytest.raises(TrainerError, match="all_reduce"):
        loop._repeat("all_reduce", (0, 1), 1, 4)


class Queue(Alone):
    """A device that is done with a call a millisecond after the one before, and is waited for in half a one."""

    def __init__(self, **more):
        super().__init__(queues=True, **more)
        self.now = self.done = 0.0

    def all_reduce(self):
        super().all_reduce()
        self.done = max(self.done, self.now) + 1e-3

    def send(self, rank):
        self.done = max(self.done, self.now) + 0.5e-3

    receive = send

    def synchronize(self):
        super().synchronize()
        self.now = max(self.now, self.done) + 0.5e-3


def queued_case(operation, ranks, calls):
    library = Queue()
    loop, _ = a_loop(library, Channel())
    loop._clock = lambda: library.now
    library.fill(4, [head_of(0, 4)])
    return library, loop, loop._repeat(operation, ranks, calls)


@pytest.mark.parametrize("operation", ["all_reduce", "point_to_point"])
def test_on_a_device_that_queues_a_time_is_the_mean_of_those_queued_together(operation):
    """As nccl-tests does it: the wait is paid once for all."""
    library, loop, timed = queued_case(operation, (0, 1), 200)
    assert timed == pytest.approx([1e-3 + 0.5e-3 / 20] * 10)
    assert library.waits == 10
    assert loop._queued(operation, (0, 1), 200) == netbench.QUEUED


def test_few_calls_are_still_three_means():
    _, loop, timed = queued_case("all_reduce", (0, 1), 10)
    assert loop._queued("all_reduce", (0, 1), 10) == 3
    assert timed == pytest.approx([1e-3 + 0.5e-3 / 3] * 3)


def test_a_sum_of_many_ranks_is_never_queued_so_often_that_it_overflows():
    everyone = tuple(range(4096))
    library, loop, timed = queued_case("all_reduce", everyone, 200)
    assert loop._queued("all_reduce", everyone, 200) == rescale_every(4096) == 5
    # Scaled back between two portions of five, and not within one: as often as there are portions.
    assert library.scaled == [4096.0**-5] * 40
    assert len(timed) == 40


def test_a_queueing_device_says_how_many_stand_for_one(kept_busy):
    loop, told = a_loop(Queue(), Channel())
    assert loop._measure() == "max_steps"
    assert {(data["queued"], data["repetitions"]) for _, data in told} == {(20, 10)}
    # A warm-up ends with a mean of many, and begins with the call that is checked.
    assert netbench._portions(20, 6, True) == [1, 1, 6, 6, 6]
    assert netbench._portions(2, 1, True) == [1, 1]


def test_where_calls_return_when_they_are_done_each_is_timed_and_nothing_else_is_said(kept_busy):
    loop, told = a_loop(Alone(), Channel())
    loop._measure()
    assert not any("queued" in data for _, data in told)


class Together(Alone):
    """Stands for a library that adds up the vectors of both ranks of one process, here or in a server. It has a clock
    of its own, by which what is above 4 KiB takes a millisecond more. ``wrong``: what comes to the second rank."""

    operations = ("push", "pull", "all_reduce")

    def __init__(self, mean=False, **more):
        super().__init__(**more)
        self.mean, self.now = mean, 0.0
        self.server = self.inbox = None

    def _sums(self):
        self.now += 1e-4 + self.size * 4e-9 + 1e-3 * (self.size > 1024)
        return [a + b for a, b in zip(*self.vectors, strict=True)]

    def all_reduce(self):
        whole = [value / (2 if self.mean else 1) for value in self._sums()]
        self.vectors = [whole, [value + self.wrong for value in whole]]

    def push(self):
        self.server = self._sums()

    def pull(self):
        self._sums()
        self.inbox = [self.server, [value + self.wrong for value in self.server]]

    def heads(self, count):
        return [vector[:count] for vector in self.vectors]

    def received(self, count):
        return [vector[:count] for vector in self.inbox]

    def scale(self, factor):
        super().scale(factor)
        self.vectors = [[factor * value for value in vector] for vector in self.vectors]


def measured_together(library, channel):
    loop, told = a_loop(library, channel, together=True, max_bytes=2**16)
    loop._clock = lambda: library.now
    assert loop._measure() == "max_steps"
    return [data for _, data in told]


@pytest.mark.parametrize("mean", [False, True])
def test_a_process_reports_for_all_ranks_that_it_drives(mean, kept_busy):
    library = Together(mean)
    told = measured_together(library, Channel())
    assert {data["operation"] for data in told} == {"push", "pull", "all_reduce"}
    assert all((data["ranks"], data["world_size"], data["ways"]) == ([0, 1], 2, 1) for data in told)
    assert bool(library.scaled) is not mean


@pytest.mark.parametrize("operation", Together.operations)
def test_a_wrong_vector_of_any_rank_of_a_process_ends_the_run(operation):
    library = Together(wrong=0.5)
    loop, _ = a_loop(library, Channel(), together=True)
    library.fill(4, [head_of(0, 4), head_of(1, 4)])
    library.push()
    with pytest.raises(TrainerError, match=f"{operation} of 4 numbers"):
        loop._repeat(operation, (0, 1), 1, 4)


def test_a_sum_that_servers_did_not_make_of_this_push_ends_the_run():
    library = Together()
    loop, _ = a_loop(library, Channel(), together=True)
    library.fill(4, [head_of(0, 4), head_of(1, 4)])
    library.push, library.server = lambda: None, [0.0] * 4
    with pytest.raises(TrainerError, match="push of 4 numbers"):
        loop._repeat("push", (0, 1), 1, 4)


def test_sizes_between_others_are_measured_where_a_time_jumps_idle_and_busy(kept_busy):
    told = measured_together(Together(), Channel())
    for busy in (False, True):
        for operation in Together.operations:
            found = [d["bytes"] for d in told if (d["busy_cores"], d["operation"]) == (busy, operation)]
            assert found[: len(sizes(2**16))] == sizes(2**16)
            assert sorted(found[len(sizes(2**16)) :]) == AT_THE_JUMP


def test_another_rank_takes_the_sizes_that_rank_0_says_and_no_others(kept_busy):
    told = measured_together(Together(), Channel(between=[6144, 0, 0, 20, 28, 0] * 2))
    between = [(data["operation"], data["bytes"]) for data in told if data["bytes"] not in sizes(2**16)]
    assert between == [("push", 6144), ("all_reduce", 20), ("all_reduce", 28)] * 2
