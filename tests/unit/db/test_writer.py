"""The writer thread on a file in a temporary folder: its queue, its time limit, its end."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from orchestrator.db.connection.writer import Writer
from orchestrator.domain.words.errors import Conflict, StoreUnavailable


class PlainFile:
    """A SQLite file without tables."""

    def __init__(self, path: Path) -> None:
        self.opened = 0
        self.folder = path.parent
        self._engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def connect(self) -> Connection:
        self.opened += 1
        return self._engine.connect()

    def check(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path) -> PlainFile:
    return PlainFile(tmp_path / "plain.sqlite3")


class Gate:
    """A piece of work that stands in the writer's way until it is opened."""

    def __init__(self, writer: Writer) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=lambda: writer.write(self._wait))
        self.thread.start()
        self.entered.wait(30)

    def _wait(self, _: Connection) -> None:
        self.entered.set()
        self.open.wait(30)


@pytest.fixture
def writer(file: PlainFile) -> Iterator[Writer]:
    made = Writer(file, max_waiting=2)
    yield made
    made.close()


def ask(writer: Writer) -> object:
    return writer.write(lambda connection: connection.exec_driver_sql("SELECT 42").scalar())


def test_the_result_of_the_work_is_returned(writer: Writer) -> None:
    assert ask(writer) == 42


def test_an_exception_of_the_work_reaches_its_caller_and_nobody_else(writer: Writer, file: PlainFile) -> None:
    def fail(_: Connection) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        writer.write(fail)
    assert ask(writer) == 42
    assert file.opened == 1


def test_what_one_of_a_batch_cannot_do_takes_nothing_from_the_others(file: PlainFile) -> None:
    writer = Writer(file)
    writer.write(lambda connection: connection.exec_driver_sql("CREATE TABLE one (number INTEGER PRIMARY KEY)"))
    gate = Gate(writer)
    refused: list[Exception] = []

    def insert(number: int) -> None:
        try:
            writer.write(lambda connection: connection.exec_driver_sql(f"INSERT INTO one VALUES ({number})"))
        except Conflict as error:
            refused.append(error)

    waiting = [threading.Thread(target=insert, args=(number,)) for number in (1, 2, 2, 3)]
    for thread in waiting:
        thread.start()
    while writer._tickets.qsize() < len(waiting):
        threading.Event().wait(0.001)
    gate.open.set()
    for thread in (*waiting, gate.thread):
        thread.join()
    found = writer.write(lambda connection: list(connection.exec_driver_sql("SELECT number FROM one").scalars()))
    writer.close()
    assert (found, len(refused)) == ([1, 2, 3], 1)
    assert (writer.writes, file.opened) == (6, 1)


def test_a_caller_that_waits_too_long_is_told_and_its_work_is_not_done(file: PlainFile) -> None:
    writer = Writer(file, max_waiting=2, wait_timeout_s=0.05)  # alone here: a busy machine takes longer for real work
    done: list[int] = []
    blocked, inside = threading.Event(), threading.Event()

    def block(_: Connection) -> None:
        inside.set()
        blocked.wait(30)

    with pytest.raises(StoreUnavailable, match="longer"):
        writer.write(block)
    inside.wait(30)
    with pytest.raises(StoreUnavailable, match="longer"):
        writer.write(lambda _: done.append(1))
    blocked.set()
    writer.close()
    assert done == []


def test_a_full_queue_refuses_at_once(file: PlainFile) -> None:
    writer = Writer(file, max_waiting=2)
    gate = Gate(writer)
    waiting = [threading.Thread(target=ask, args=(writer,)) for _ in range(2)]
    for thread in waiting:
        thread.start()
    while writer._tickets.qsize() < 2:
        threading.Event().wait(0.001)

    with pytest.raises(StoreUnavailable, match="waiting"):
        ask(writer)

    gate.open.set()
    for thread in (*waiting, gate.thread):
        thread.join()
    assert ask(writer) == 42
    writer.close()


def test_closing_finishes_what_waits_and_then_refuses(file: PlainFile) -> None:
    writer = Writer(file)
    gate = Gate(writer)
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(ask(writer)))
    waiting.start()
    while writer._tickets.qsize() < 1:
        threading.Event().wait(0.001)
    closing = threading.Thread(target=writer.close)
    closing.start()

    gate.open.set()
    for thread in (waiting, closing, gate.thread):
        thread.join()

    assert answers == [42]
    with pytest.raises(StoreUnavailable, match="closed"):
        ask(writer)
