"""How many decode ahead of the training, and that their batches have room in shared memory."""

import os

import pytest

from workers.trainer.base import ahead
from workers.trainer.base.failure import TrainerError


@pytest.mark.parametrize(
    ("batch_bytes", "expected"),
    [(10, (4, 4)), (80, (4, 3)), (200, (4, 1)), (300, (3, 1)), (1000, (1, 1))],
    ids=["all", "fewer each", "one each", "fewer processes", "one"],
)
def test_batches_in_flight_have_room_in_shared_memory(monkeypatch, batch_bytes, expected):
    monkeypatch.setenv("TBD_DECODERS", "4")
    monkeypatch.setattr(ahead, "shared_bytes", lambda: 1000)
    assert ahead.in_flight(batch_bytes, 4) == expected


def test_a_batch_without_room_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(ahead, "shared_bytes", lambda: 1000)
    with pytest.raises(TrainerError, match="--shm-size"):
        ahead.in_flight(1001, 4)


def test_a_rank_fills_half_of_its_share_at_most(monkeypatch):
    found = os.statvfs(ahead.SHARED)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setenv("TBD_DECODERS", "8")
    whole = ahead.shared_bytes()
    assert whole == found.f_blocks * found.f_frsize // 2
    monkeypatch.setenv("TBD_DECODERS", "1")
    assert ahead.shared_bytes() == whole // 8
