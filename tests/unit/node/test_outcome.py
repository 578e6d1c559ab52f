"""From what was seen of a process to the failure of an attempt."""

import pytest

from workers.node import outcome
from workers.node.outcome import Failure
from workers.trainer import protocol


def judged(status, error=None, finished=True, tail="", memory_short=False, limit=None):
    return outcome.of_exit([1], status, error, finished, tail, memory_short, limit)


def test_a_process_that_finished_with_status_0_has_not_failed():
    assert judged(0) is None


def test_status_0_without_finished_is_an_invalid_log():
    assert judged(0, finished=False).kind == "invalid_log"


def test_an_actor_that_ends_with_status_0_and_has_not_finished_has_crashed():
    failure = outcome.of_exit([], 0, None, False, "", False)
    assert (failure.kind, failure.ranks, failure.exit_code) == ("crashed", [], 0)


@pytest.mark.parametrize(("kind", "status"), protocol.EXIT_STATUS.items())
def test_every_exit_status_of_the_protocol_has_its_kind(kind, status):
    assert judged(status).kind == kind


def test_a_full_disk_explains_the_torn_log_and_the_crash_that_follow_it():
    seen = [Failure("crashed", [0]), Failure("invalid_log", [1]), Failure("no_space", [1])]
    assert outcome.cause(seen).kind == "no_space"


def test_an_error_event_says_more_than_the_status():
    failure = judged(1, {"failure": "diverged", "type": "Nan", "message": "the loss is nan", "traceback": ""})
    assert (failure.kind, failure.exit_code, failure.message) == ("diverged", 1, "Nan: the loss is nan")


def test_an_error_event_with_an_unknown_kind_does_not_hide_the_status():
    assert judged(81, {"failure": "bored", "type": "T", "message": "m", "traceback": ""}).kind == "out_of_memory"


def test_any_other_status_is_a_crash_with_the_last_words():
    failure = judged(3, tail="Traceback\nValueError: no\n")
    assert (failure.kind, failure.exit_code) == ("crashed", 3)
    assert failure.message.endswith("ValueError: no")


def test_a_signal_is_a_crash_that_names_it():
    failure = judged(-11)
    assert (failure.kind, failure.signal, failure.exit_code) == ("crashed", 11, None)
    assert "SIGSEGV" in failure.message


def test_a_library_that_aborts_for_want_of_memory_is_out_of_memory():
    tail = "terminate called after throwing an instance of 'std::bad_alloc'"
    assert judged(-6, tail=tail).kind == "out_of_memory"
    assert judged(-6, tail="an assertion failed").kind == "crashed"


@pytest.mark.parametrize("number", [6, 7, 11])
def test_native_code_that_ends_bluntly_within_a_limit_of_memory_is_out_of_memory_and_says_why(number):
    failure = judged(-number, tail="Segmentation fault: 11", limit=640 * 2**20)
    assert (failure.kind, failure.signal) == ("out_of_memory", number)
    assert "within its limit of 640 MiB" in failure.message
    assert "Segmentation fault: 11" in failure.message
    assert judged(-number, tail="Segmentation fault: 11").kind == "crashed"
    assert judged(-9, limit=640 * 2**20).kind == "crashed"


# What was seen, but for the last: as OpenBLAS's sources have it.
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (1, "OpenBLAS error: Memory allocation still failed after 10 retries, giving up."),
        (1, "libgomp: Thread creation failed: Resource temporarily unavailable"),
        (127, "cannot allocate memory for thread-local data: ABORT"),
        (1, 'File "<frozen importlib._bootstrap_external>", line 1131, in get_data\nMemoryError'),
        (-2, "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Resource temporarily unavailable"),
    ],
)
def test_last_words_of_libraries_that_find_no_memory_count_within_a_limit(status, said):
    failure = judged(status, tail=f"a warning\n{said}\n", limit=200 * 2**20)
    assert failure.kind == "out_of_memory"
    assert "within its limit of 200 MiB" in failure.message
    assert said.splitlines()[-1] in failure.message
    assert judged(status, tail=said).kind == "crashed"
    assert judged(0, tail=said, limit=200 * 2**20) is None
    assert judged(-9, tail=said, limit=200 * 2**20).kind == "crashed"


def test_the_alarm_that_an_adapter_sets_around_a_wait_in_a_library_is_a_time_out():
    failure = judged(-14)
    assert (failure.kind, failure.signal) == ("timed_out", 14)


def test_sigkill_while_memory_was_short_is_out_of_memory_and_only_sigkill():
    assert judged(-9, memory_short=True).kind == "out_of_memory"
    assert judged(-9, memory_short=False).kind == "crashed"
    assert judged(-11, memory_short=True).kind == "crashed"


def test_a_real_time_signal_without_a_name_is_given_by_number():
    assert "signal 40" in judged(-40).message


def test_how_a_rank_died_counts_before_what_its_peer_saw_of_it():
    seen_by_a_peer = Failure("crashed", [1], 86, None, "TrainerError: rank 1 was lost", of_a_peer=True)
    killed = Failure("crashed", [1], None, 9, "killed by SIGKILL")
    assert outcome.cause([seen_by_a_peer, killed]) == killed
    assert outcome.cause([seen_by_a_peer]).as_json() == {
        "kind": "crashed",
        "ranks": [1],
        "exit_code": 86,
        "signal": None,
        "message": "TrainerError: rank 1 was lost",
    }


def test_an_actor_that_left_counts_before_its_worker_that_lost_it_whoever_was_quicker():
    worker = Failure("crashed", [0], 86, None, "ConnectionError: an actor has gone")
    actor = Failure("crashed", [], 0, None, "ended with status 0 before its worker had gone", of_an_actor=True)
    assert outcome.cause([worker, actor]) == outcome.cause([actor, worker]) == actor
    assert outcome.cause([worker._replace(kind="out_of_memory"), actor]).kind == "out_of_memory"


def test_the_cause_is_the_most_telling_failure_not_the_first_noticed():
    peer_gone = Failure("crashed", [0])
    assert outcome.cause([peer_gone, Failure("out_of_memory", [1])]).ranks == [1]
    assert outcome.cause([Failure("timed_out", [0]), Failure("crashed", [2])]).kind == "crashed"


def test_what_only_followed_from_another_end_is_never_the_cause():
    """mpirun ends the other ranks, and then itself with a status of its own."""
    ended = Failure("crashed", [0], None, 15, aftermath=True)
    mpirun = Failure("crashed", [], 137, aftermath=True)
    late = Failure("timed_out", [1])
    assert outcome.cause([ended, mpirun, late]) == late
    assert outcome.cause([mpirun]) == mpirun


def test_of_two_crashes_the_first_one_noticed_is_the_cause():
    assert outcome.cause([Failure("crashed", [1]), Failure("crashed", [0])]).ranks == [1]


def test_a_failure_that_strikes_all_ranks_names_them_all():
    failures = [Failure("diverged", [1]), Failure("crashed", [2]), Failure("diverged", [0])]
    assert outcome.cause(failures).ranks == [0, 1]


def test_every_failure_kind_has_its_place_among_the_causes():
    for kind in protocol.FAILURE_KINDS:
        assert outcome.cause([Failure(kind, [0])]).kind == kind


def test_no_failure_has_no_cause():
    assert outcome.cause([]) is None
