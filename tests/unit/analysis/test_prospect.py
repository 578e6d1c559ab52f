"""How long the next run of a cell is to be, and what history lends it: from runs that are over."""

import numpy as np

from orchestrator.analysis.analyse import analyse
from orchestrator.analysis.cell.prospect import prospect, sessions_of
from tests.unit.analysis.logs import NODE, a_log, durations, quiet


def a_run(seed, n=120, warm=0.0, scale=1.0):
    times = scale * durations(n, 0.02, seed) * (1 + warm * np.exp(-np.arange(n) / 8))
    return analyse({NODE: a_log(timed=times, readings=quiet())})


def test_of_an_unknown_workload_the_first_run_is_long_enough_to_find_its_warm_up():
    found = prospect((), ())
    assert (found.length.intervals, found.length.seconds, found.remembered_cut) == (100, 3.0, None)
    assert found.to_job()["history"] == []


def test_the_second_run_knows_the_cut_of_the_first():
    first = a_run(1, warm=0.5)
    found = prospect([first], ())
    cut = first.summary["steady"]["first_interval"]
    assert found.length.intervals == max(cut + 60, 3 * cut)


def test_from_the_third_run_on_the_first_two_say_how_long():
    pilot = [a_run(seed, warm=0.5) for seed in (1, 2)]
    found = prospect(pilot, ())
    assert found.length.intervals >= 60
    assert "intervals after a warm-up of" in found.length.reason
    assert prospect([*pilot, a_run(9, n=400, scale=3.0)], ()).length == found.length, "later ones are not asked"


def test_slow_and_quick_intervals_both_get_sixty_intervals_and_three_seconds():
    quick = prospect([a_run(seed, scale=0.0125) for seed in (1, 2)], ()).length  # 5 ms
    assert 0.005 * quick.intervals >= 3.0
    slow = prospect([a_run(seed, scale=5.0) for seed in (1, 2)], ()).length  # 2 s
    assert 60 <= slow.intervals <= 400


def test_history_remembers_the_cut_and_its_sessions_travel_in_the_job():
    sessions = [[a_run(10 * session + seed, warm=0.5) for seed in range(3)] for session in range(4)]
    found = prospect((), sessions)
    assert found.remembered_cut >= 12
    assert found.length.intervals >= found.remembered_cut + 60
    job = found.to_job()
    assert job["stopping"]["remembered_cut"] == found.remembered_cut
    assert [len(session["rates"]) for session in job["history"]] == [3] * 4
    assert sessions_of(job["history"]) == list(found.sessions)


def test_a_limit_in_seconds_makes_a_run_shorter_and_says_so():
    pilot = [a_run(seed) for seed in (1, 2)]
    length = prospect(pilot, (), max_measure_s=10.0).length
    assert (length.intervals, length.bounded) == (25, True)
    assert "max_measure_s" in length.reason
