"""What a process reports when its framework only knows that some other rank has gone."""

from tests.trainer_process import read_job
from workers.trainer.__main__ import explained
from workers.trainer.base.failure import PEER_LOST, TrainerError

GONE = RuntimeError("Connection closed by peer")


class Channel:
    def __init__(self, found):
        self.found = found

    def culprit(self):
        return self.found


def told(channel, ranks=2, kind=PEER_LOST):
    job = read_job("sleep", "sleep", ranks=ranks)
    return explained(GONE, kind, job, job.processes[0], channel)


def test_the_rank_that_the_control_channel_names_is_the_one_reported():
    lost = TrainerError("crashed", "rank 1 was lost", [1])
    error, kind = told(Channel(lost))
    assert (error, kind) == (lost, "crashed")
    assert error.__cause__ is GONE


def test_where_nobody_knows_the_other_of_two_ranks_does_not_answer():
    error, kind = told(Channel(None))
    assert (kind, error.ranks) == ("timed_out", [1])
    assert "Connection closed by peer" in str(error)


def test_where_nobody_knows_which_of_several_it_is_none_is_named():
    error, kind = told(Channel(None), ranks=3)
    assert (kind, error.ranks) == ("timed_out", None)


def test_any_other_failure_is_reported_as_it_is():
    assert told(Channel(None), kind="diverged") == (GONE, "diverged")
