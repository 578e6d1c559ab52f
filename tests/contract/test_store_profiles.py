"""The contract of the store: the profiles of runs, and what is drawn of them over time. On SQLite and on PostgreSQL."""

import random
from itertools import accumulate

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Validity
from orchestrator.domain.value.profile import (
    PAPER_CLASSES,
    GradientExchange,
    Kernel,
    KernelTable,
    Layer,
    LayerTimes,
    MemoryProfile,
    Profiles,
    Share,
)
from orchestrator.domain.value.time_series import PART, Points, TimeSeries
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

LOST = Failure(FailureKind.NODE_LOST, "n0 fell silent")
BREAKDOWN = {"input_s": 0.25, "host_to_device_s": None, "forward_s": 1 / 3, "backward_s": 0.5}


def memory(rank: int = 0, outside_bytes: int | None = None) -> MemoryProfile:
    return MemoryProfile(
        rank=rank,
        method="followed",
        steps=3,
        classes={name: Share(2**40 + number, 2**33 * number) for number, name in enumerate(PAPER_CLASSES)},
        parts={"optimizer_state": Share(7, 7), "input": Share(3, 0), "other": Share(0, 0)},
        peak_bytes=2**37,
        peak_method="the allocator's own counter",
        outside_bytes=outside_bytes,
    )


def kernels(rank: int = 0) -> KernelTable:
    rows = (
        Kernel("void gemm<float>(é, 矩阵)", "matrix product", 2**40, 1 / 3, 0.75, 0.5, None),
        Kernel("aten::relu", "element-wise", 3, 1 / 9, 0.25, None, "no counters"),
        Kernel("aten::relu", "element-wise", 3, 1 / 9, 0.25, None, "no counters"),
    )
    return KernelTable(rank, "profiler", 3, 1.5, 1.25, rows[rank:])


def layers(rank: int = 0) -> LayerTimes:
    rows = (Layer("stem.0", "Conv2d", 400, 0.1, 0.2), Layer("head", "Linear", 2**35, None, None))
    buckets = (GradientExchange("bucket 1", 2**33, 0.0, 0.5), GradientExchange("bucket 0", 4, 0.5, 0.75))
    return LayerTimes(
        rank, "hooks", 2, 9.0, True, BREAKDOWN, {"host_to_device_s": "nothing is copied"}, rows, buckets[rank:]
    )


WHOLE = Profiles(
    memory=(memory(0), memory(1, 2**31)),
    kernels=(kernels(0), kernels(1)),
    layers=(layers(0), layers(1)),
    reasons={"heat": "nobody asked"},
)


def judged(store: SqlStore, profiles: Profiles, to: RunState = RunState.COMPLETED, *over_time: TimeSeries) -> Run:
    """A run that has ended with these profiles and time series."""
    _, (run,) = scene.submitted(store)
    attempted(store, run, profiles, to, 1, *over_time)
    return run


def attempted(
    store: SqlStore, run: Run, profiles: Profiles, to: RunState, number: int = 1, *over_time: TimeSeries
) -> None:
    assert store.begin_attempt(run.id, scene.attempt_of(run, number))
    for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run.id, here, there, at=3.0)
    analysis = Analysis(Validity(), profiles=profiles, code_version="1", time_series=over_time)
    failure = LOST if to is RunState.QUEUED else None
    assert store.conclude(run.id, to, at=4.0, failure=failure, analysis=analysis)


def test_profiles_come_back_as_they_were_found_rank_by_rank_and_row_by_row(store: SqlStore) -> None:
    run = judged(store, WHOLE)
    assert store.profiles(run.id) == WHOLE


def test_names_that_a_database_cannot_hold_are_made_so_that_it_can(store: SqlStore) -> None:
    odd = Kernel("gemm\x00\ud800", "other", 1, 1.0, 1.0, None, "why")
    run = judged(store, Profiles(kernels=(KernelTable(0, "m", 1, 1.0, 1.0, (odd,)),)))
    assert store.profiles(run.id).kernels[0].rows[0].name == "gemm??"


def test_a_run_has_the_profiles_that_were_made_of_it_and_no_others(store: SqlStore) -> None:
    profiled, plain = judged(store, WHOLE), judged(store, Profiles())
    assert store.profiles(plain.id) == Profiles()
    assert not store.profiles(plain.id)
    assert store.profiles(profiled.id).kernels == WHOLE.kernels


def test_a_profile_that_is_not_there_keeps_its_reason(store: SqlStore) -> None:
    run = judged(store, Profiles(reasons={"memory": "out_of_memory: asked for too much"}))
    assert store.profiles(run.id) == Profiles(reasons={"memory": "out_of_memory: asked for too much"})


def test_profiles_are_no_part_of_what_lists_of_runs_carry(store: SqlStore) -> None:
    run = judged(store, WHOLE)
    analysis = store.run(run.id).analysis
    assert analysis is not None
    assert analysis.profiles == Profiles()
    assert "profiles" not in analysis.to_json()


def test_of_several_attempts_the_latest_counts(store: SqlStore) -> None:
    run = judged(store, WHOLE, to=RunState.QUEUED)
    assert store.profiles(run.id) == WHOLE
    attempted(store, run, Profiles(kernels=(kernels(1),)), RunState.COMPLETED, number=2)
    assert store.profiles(run.id) == Profiles(kernels=(kernels(1),))


def steps(n: int, subject: str = "rank 0", seed: int = 1) -> TimeSeries:
    """So many steps of uneven lengths."""
    lots = random.Random(seed)
    values = [lots.expovariate(1.0) for _ in range(n)]
    return TimeSeries("step_time_s", subject, Points(list(accumulate(values)), values, values))


@pytest.mark.parametrize("n", [1, PART, 20_000])
def test_any_stretch_of_a_run_is_read_with_its_outliers_in_as_many_points_as_are_asked_for(
    store: SqlStore, n: int
) -> None:
    whole = steps(n)
    run = judged(store, Profiles(), RunState.COMPLETED, whole, steps(3, "rank 1"))
    at_s, values = whole.points.at_s, whole.points.least
    lots = random.Random(2)
    for _ in range(12):
        from_s, to_s = sorted((lots.uniform(0, at_s[-1]), at_s[-1] * lots.choice((1.0, lots.random()))))
        most = lots.choice((2, 50, 800))
        found, end_s = store.time_series(run.id, from_s, to_s, most)
        first = next((one.points for one in found if one.subject == "rank 0"), Points((), (), ()))
        inside = [value for at, value in zip(at_s, values, strict=True) if from_s <= at <= to_s]
        assert end_s == max(at_s[-1], steps(3).points.at_s[-1])
        assert len(first) <= most
        if inside:
            assert max(first.greatest) >= max(inside)
            assert min(first.least) <= min(inside)
        if len(inside) + 2 <= most:  # every point of the log, and the neighbours
            assert set(inside) <= set(first.least)
            assert len(first) <= len(inside) + 2


def test_the_time_series_of_a_run_are_those_of_its_latest_attempt_and_are_added_once(store: SqlStore) -> None:
    run = judged(store, Profiles(), RunState.QUEUED, steps(3))
    attempted(store, run, Profiles(), RunState.COMPLETED, 2)
    assert store.time_series(run.id, 0.0, 1e9, 10) == ([], None)
    for _ in range(2):
        store.add_time_series(run.id, [steps(5, seed=3)])
    ((found,), end_s) = store.time_series(run.id, 0.0, 1e9, 10)
    assert (list(found.points.at_s), end_s) == (steps(5, seed=3).points.at_s, found.points.at_s[-1])
    store.add_time_series("run_that_is_gone", [steps(5)])
