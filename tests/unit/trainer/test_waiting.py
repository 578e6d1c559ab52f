"""Calls into a framework that may wait for ever, and the end of a process that has given one up."""

import threading
from types import SimpleNamespace

import pytest

from workers.trainer.__main__ import leaves_at_once
from workers.trainer.base import waiting
from workers.trainer.base.failure import TrainerError


def test_a_process_that_has_given_up_a_call_is_not_taken_down_beside_it():
    job = SimpleNamespace(plan=SimpleNamespace(strategy="ddp"), phase="train")
    assert waiting.within(5, "it is not answered", max, 1, 2) == 2
    assert not leaves_at_once(job)
    answered = threading.Event()
    with pytest.raises(TrainerError, match=r"it is not answered within 0.01 s"):
        waiting.within(0.01, "it is not answered", answered.wait)
    assert leaves_at_once(job)
    answered.set()
