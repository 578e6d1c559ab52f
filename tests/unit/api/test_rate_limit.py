"""Buckets of tokens: how often a caller may ask."""

from orchestrator.api.door.rate_limit import MOST_CALLERS, Buckets


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_served_and_then_the_steady_rate() -> None:
    time = Time()
    buckets = Buckets(rate=2.0, burst=3.0, monotonic=time)
    assert [buckets.take("ada") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert buckets.take("ada") == 0.5
    time.now = 0.25
    assert buckets.take("ada") == 0.25
    time.now = 0.5
    assert buckets.take("ada") == 0.0
    assert buckets.take("ada") == 0.5


def test_callers_do_not_share_and_a_pause_gives_no_more_than_a_burst() -> None:
    time = Time()
    buckets = Buckets(rate=1.0, burst=2.0, monotonic=time)
    assert [buckets.take("ada") for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.take("bob") == 0.0
    time.now = 1e6
    assert [buckets.take("ada") for _ in range(3)] == [0.0, 0.0, 1.0]


def test_rate_0_is_no_limit() -> None:
    buckets = Buckets(rate=0.0, burst=1.0, monotonic=Time())
    assert {buckets.take("ada") for _ in range(1000)} == {0.0}


def test_no_more_callers_are_remembered_than_fit() -> None:
    buckets = Buckets(rate=1.0, burst=1.0, monotonic=Time())
    for number in range(MOST_CALLERS + 10):
        buckets.take(str(number))
    assert len(buckets._left) == MOST_CALLERS
    assert buckets.take("0") == 0.0  # it was forgotten, and begins anew
    assert buckets.take(str(MOST_CALLERS + 9)) == 1.0
