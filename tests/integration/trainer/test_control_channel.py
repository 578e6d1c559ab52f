"""The control channel over real sockets: who may talk, who is waited for, and that everybody ends together."""

import contextlib
import json
import socket
import threading
import time

import pytest

from workers.node.port_choice import free_port
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Control
from workers.trainer.control import Leader, Member
from workers.trainer.control import leader as leader_end
from workers.trainer.control import member as member_end

TOKEN = "secret"


@pytest.fixture
def address():
    return Control("127.0.0.1", free_port())


class Rank(threading.Thread):
    """One rank in a thread: joins and takes turns until it is told to stop; remembers what it did."""

    def __init__(self, end, max_steps=1000, dies_at=None, fails_at=None, step_s=0.0):
        super().__init__(daemon=True)
        self.end, self.max_steps, self.dies_at, self.fails_at, self.step_s = end, max_steps, dies_at, fails_at, step_s
        self.steps, self.reason, self.failure = 0, None, None
        self.joined = threading.Event()

    def run(self):
        try:
            self.end.join()
            self.joined.set()
            while self.reason is None:
                if self.steps == self.dies_at:
                    return
                if self.steps == self.fails_at:
                    self.end.fail("diverged", "the loss is nan")
                    return
                self.turn()
        except TrainerError as failure:
            self.failure = failure
        finally:
            self.end.close()

    def turn(self):
        proposal = ("timed", 2) if self.steps < self.max_steps else None
        order = self.end.turn(self.steps, proposal)
        if "stop" in order:
            self.reason = order["stop"]
        else:
            self.steps += order["go"]
            time.sleep(self.step_s)


def start(address, others=(1, 2), timeout_s=20.0, leader=None, members=None, absent=()):
    """Start rank 0 and the others as threads; return all of them in order."""
    ranks = [Rank(Leader(address, TOKEN, list(others), 1 + len(others), timeout_s), **(leader or {}))]
    for rank in others:
        if rank not in absent:
            ranks.append(Rank(Member(address, TOKEN, rank, timeout_s), **(members or {}).get(rank, {})))
    for rank in ranks:
        rank.start()
    return ranks


def finish(ranks):
    for rank in ranks:
        rank.join(20.0)
        assert not rank.is_alive()


def say(address, message):
    """Connect and send one line; return the connection."""
    connection = socket.create_connection((address.host, address.port), timeout=10.0)
    connection.sendall((json.dumps(message) + "\n").encode())
    return connection


def test_all_ranks_stop_at_the_same_step(address):
    ranks = start(address, leader={"max_steps": 40}, members={1: {"step_s": 0.002}})
    finish(ranks)
    assert {(rank.steps, rank.reason) for rank in ranks} == {(40, "max_steps")}


def test_the_agent_stops_all_ranks_at_the_same_step(address):
    ranks = start(address, leader={"max_steps": 10**9, "step_s": 0.001})
    assert ranks[0].joined.wait(10.0)
    agent = say(address, {"token": TOKEN, "role": "agent"})
    agent.sendall(b'{"stop": "half width reached"}\n')
    finish(ranks)
    assert {rank.reason for rank in ranks} == {"half width reached"}
    assert len({rank.steps for rank in ranks}) == 1
    agent.close()


def test_an_agent_that_connects_before_the_ranks_have_joined_is_heard(address):
    leader = Leader(address, TOKEN, [1], 2, 20.0)
    agent = say(address, {"token": TOKEN, "role": "agent"})
    agent.sendall(b'{"stop": "cancelled"}\n')
    ranks = [Rank(leader), Rank(Member(address, TOKEN, 1, 20.0))]
    for rank in ranks:
        rank.start()
    finish(ranks)
    assert [(rank.steps, rank.reason) for rank in ranks] == [(0, "cancelled")] * 2
    agent.close()


def test_a_stranger_with_a_wrong_token_is_refused_and_changes_nothing(address):
    ranks = start(address, leader={"max_steps": 10**9, "step_s": 0.001})
    assert ranks[0].joined.wait(10.0)
    stranger = say(address, {"token": "wrong", "role": "agent"})
    assert json.loads(stranger.makefile().readline()) == {"refused": "wrong token"}
    assert stranger.recv(1) == b""
    steps = ranks[0].steps
    with say(address, {"token": TOKEN, "role": "agent"}) as agent:
        agent.sendall(b'{"stop": "enough"}\n')
        finish(ranks)
    assert ranks[0].steps >= steps
    assert {rank.reason for rank in ranks} == {"enough"}


@pytest.mark.parametrize("noise", [b"\xff\xfe\x00\n", b"[1, 2]\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 200000])
def test_nonsense_from_a_stranger_does_not_disturb_the_ranks(address, noise):
    ranks = start(address, leader={"max_steps": 200, "step_s": 0.001})
    with socket.create_connection((address.host, address.port), timeout=10.0) as stranger:
        with contextlib.suppress(OSError):
            stranger.sendall(noise)
        finish(ranks)
    assert {rank.reason for rank in ranks} == {"max_steps"}


def test_a_rank_with_a_wrong_token_does_not_take_part(address):
    leader = Rank(Leader(address, TOKEN, [1], 2, 1.0))
    member = Rank(Member(address, "wrong", 1, 5.0))
    leader.start()
    member.start()
    finish([leader, member])
    assert member.failure.kind == "setup_failed"
    assert (leader.failure.kind, leader.failure.ranks) == ("timed_out", [1])


def test_a_rank_that_never_joins_ends_the_attempt(address):
    ranks = start(address, timeout_s=1.0, absent=(2,))
    finish(ranks)
    assert [(rank.failure.kind, rank.failure.ranks) for rank in ranks] == [("timed_out", [2])] * 2


def test_a_member_whose_leader_never_listens_gives_up(address, monkeypatch):
    monkeypatch.setattr(member_end, "PATIENCE_S", 0.0)
    member = Rank(Member(address, TOKEN, 1, 0.3))
    member.start()
    finish([member])
    assert (member.failure.kind, member.failure.ranks) == ("timed_out", [0])


def test_a_rank_that_dies_in_mid_run_ends_the_others(address):
    ranks = start(address, members={2: {"dies_at": 10}})
    finish(ranks)
    assert [(rank.failure.kind, rank.failure.ranks) for rank in ranks[:2]] == [("crashed", [2])] * 2
    assert ranks[0].steps == ranks[1].steps == 10


def test_a_leader_that_dies_in_mid_run_ends_the_others(address):
    ranks = start(address, leader={"dies_at": 10})
    finish(ranks)
    assert [(rank.failure.kind, rank.failure.ranks) for rank in ranks[1:]] == [("crashed", [0])] * 2


def test_a_rank_that_diverges_stops_all(address):
    ranks = start(address, members={1: {"fails_at": 6}})
    finish(ranks)
    assert [(rank.failure.kind, rank.failure.ranks) for rank in (ranks[0], ranks[2])] == [("diverged", [1])] * 2


def test_a_leader_that_fails_is_heard_even_by_a_rank_that_is_still_busy(address):
    ranks = start(address, leader={"fails_at": 6}, members={1: {"step_s": 0.3}})
    finish(ranks)
    assert [(rank.failure.kind, rank.failure.ranks) for rank in ranks[1:]] == [("diverged", [0])] * 2


def test_a_rank_that_hangs_is_given_up_on(address):
    ranks = start(address, timeout_s=1.0, members={2: {"step_s": 4.0}})
    finish(ranks)
    assert (ranks[0].failure.kind, ranks[0].failure.ranks) == ("timed_out", [2])


def test_a_rank_that_stands_still_between_steps_is_named_long_before_the_time_limit(address, monkeypatch):
    monkeypatch.setattr(leader_end, "STANDSTILL_S", 0.3)
    ranks = start(address, timeout_s=300.0, members={2: {"step_s": 4.0}})
    finish(ranks)
    assert (ranks[0].failure.kind, ranks[0].failure.ranks) == ("timed_out", [2])
    assert "did not finish step 2" in str(ranks[0].failure)


def test_a_rank_may_take_long_before_the_first_step_and_as_long_as_rank_0_does_in_later_ones(address, monkeypatch):
    monkeypatch.setattr(leader_end, "STANDSTILL_S", 0.01)
    slow_to_begin = Rank(Member(address, TOKEN, 1, 20.0))
    leader = Rank(Leader(address, TOKEN, [1], 2, 20.0), max_steps=4, step_s=0.1)
    slow_to_begin.turn = lambda: (time.sleep(0.3), Rank.turn(slow_to_begin))
    for rank in (leader, slow_to_begin):
        rank.start()
    finish([leader, slow_to_begin])
    assert (leader.steps, leader.reason) == (4, "max_steps"), leader.failure


def test_a_rank_that_is_not_awaited_is_refused(address):
    ranks = start(address, leader={"max_steps": 10**9, "step_s": 0.001})
    assert ranks[0].joined.wait(10.0)
    with say(address, {"token": TOKEN, "rank": 1}) as twin:
        assert "not awaited" in json.loads(twin.makefile().readline())["refused"]
    with say(address, {"token": TOKEN, "role": "agent"}) as agent:
        agent.sendall(b'{"stop": "enough"}\n')
        finish(ranks)


def test_a_port_that_is_taken_is_a_failed_set_up(address):
    with socket.socket() as other:
        other.bind((address.host, address.port))
        other.listen(1)
        with pytest.raises(TrainerError) as caught:
            Leader(address, TOKEN, [], 1, 1.0)
    assert caught.value.kind == "setup_failed"


def test_a_peer_that_stays_silent_is_let_go(address, monkeypatch):
    monkeypatch.setattr(leader_end, "HELLO_TIMEOUT_S", 0.1)
    ranks = start(address, leader={"max_steps": 400, "step_s": 0.002})
    assert ranks[0].joined.wait(10.0)
    with socket.create_connection((address.host, address.port), timeout=10.0) as silent:
        assert silent.recv(1) == b""
    finish(ranks)


def test_clocks_of_other_nodes_are_compared_at_the_beginning_and_at_the_end(address):
    ahead_s = {1: 5000.0, 2: -300.0}
    leader = Rank(Leader(address, TOKEN, [1, 2], 3, 20.0, far=[1, 2]), max_steps=10)
    members = [Rank(Member(address, TOKEN, rank, 20.0, _clock_ahead(ahead_s[rank]))) for rank in (1, 2)]
    for rank in (leader, *members):
        rank.start()
    finish([leader, *members])
    found = leader.end.take_clocks()
    assert [one["peer_rank"] for one in found] == [1, 2, 1, 2]
    for one in found:
        assert abs(one["offset_s"] - ahead_s[one["peer_rank"]]) <= one["uncertainty_s"]
        assert one["uncertainty_s"] < 0.5
    assert found[0]["at_t"] < found[2]["at_t"]
    assert {rank.steps for rank in (leader, *members)} == {10}
    assert members[0].end.take_clocks() == leader.end.take_clocks() == []


def test_a_rank_that_does_not_answer_pings_is_passed_over(address, monkeypatch):
    monkeypatch.setattr(leader_end, "PING_TIMEOUT_S", 0.02)
    leader = Rank(Leader(address, TOKEN, [1], 2, 20.0, far=[1]), max_steps=0)
    leader.start()
    with say(address, {"token": TOKEN, "rank": 1}) as deaf:
        deaf.sendall(b'{"ready": 0}\n')
        finish([leader])
    assert (leader.reason, leader.end.take_clocks()) == ("max_steps", [])


def _clock_ahead(by_s):
    return lambda: time.monotonic() + by_s


def test_a_rank_that_comes_again_waits_for_the_successor_of_a_rank_0_that_is_just_leaving():
    """Its listener still takes the connection, and drops it unanswered: the successor listens at the same address."""
    with socket.socket() as leaving:
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        leaving.bind(("127.0.0.1", 0))
        leaving.listen(8)
        address = Control("127.0.0.1", leaving.getsockname()[1])
        member = Rank(Member(address, TOKEN, 1, 20.0, again=True))
        member.start()
        leaving.accept()[0].close()
    leader = Rank(Leader(address, TOKEN, [1], 2, 20.0), max_steps=4)
    leader.start()
    finish([leader, member])
    assert [(rank.steps, rank.reason, rank.failure) for rank in (leader, member)] == [(4, "max_steps", None)] * 2
