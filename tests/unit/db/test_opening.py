"""The store is opened when the database is there: it is waited for, with a word, and not for ever."""

from typing import Any

import pytest

from orchestrator.db.opening import open_store
from orchestrator.domain.words.errors import SettingsError, StoreFull, StoreUnavailable

POSTGRESQL = "postgresql://tbd@postgres/tbd"


class Database:
    """Answers at the ``comes_at``-th try. Time passes only while somebody sleeps."""

    def __init__(self, comes_at: int, error: Exception | None = None) -> None:
        self.comes_at = comes_at
        self.error = error or StoreUnavailable("the database does not answer: connection refused")
        self.tries = 0
        self.now = 0.0
        self.said: list[str] = []

    def open(self, url: str) -> Any:
        self.tries += 1
        if self.tries < self.comes_at:
            raise self.error
        return url

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def opened(self, url: str, patience_s: float) -> Any:
        time = {"sleep": self.sleep, "monotonic": lambda: self.now}
        return open_store(url, patience_s, self.said.append, open_now=self.open, **time)  # type: ignore[arg-type]


def test_a_database_that_comes_late_is_waited_for_and_that_is_said_once() -> None:
    late = Database(comes_at=5)
    assert late.opened(POSTGRESQL, 60) == POSTGRESQL
    assert late.said == [
        "the database does not answer: connection refused; waiting for it, 60 s at most (TBD_DATABASE_WAIT_S)"
    ]


def test_a_database_that_does_not_come_is_given_up_in_time() -> None:
    never = Database(comes_at=1000)
    with pytest.raises(StoreUnavailable, match=r"connection refused; waited 3 s for it \(TBD_DATABASE_WAIT_S\)"):
        never.opened(POSTGRESQL, 3)
    assert (never.now, never.tries) == (3, 4)


@pytest.mark.parametrize("error", [StoreFull("full"), SettingsError("a newer version wrote it")])
def test_what_waiting_does_not_mend_is_said_at_once(error: Exception) -> None:
    wrong = Database(comes_at=1000, error=error)
    with pytest.raises(type(error)):
        wrong.opened(POSTGRESQL, 60)
    assert wrong.tries == 1


def test_a_file_is_there_or_not() -> None:
    damaged = Database(comes_at=1000)
    with pytest.raises(StoreUnavailable):
        damaged.opened("sqlite:////data/tbd.sqlite3", 60)
    assert damaged.tries == 1
