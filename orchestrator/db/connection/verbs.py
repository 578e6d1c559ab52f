"""What makes a method of the store of a function that works on a connection: ``run = reads(runs.one)``."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from orchestrator.db.connection.databases import Database

Asked = ParamSpec("Asked")
Result = TypeVar("Result")


class OverDatabase(Protocol):
    """What such a method is a method of."""

    @property
    def database(self) -> Database: ...


def reads(
    work: Callable[Concatenate[Connection, Asked], Result],
) -> Callable[Concatenate[OverDatabase, Asked], Result]:
    """A method with the arguments of ``work`` that carries it out on one snapshot."""

    def method(self: OverDatabase, *arguments: Asked.args, **named: Asked.kwargs) -> Result:
        return self.database.read(lambda connection: work(connection, *arguments, **named))

    return method


def writes(
    work: Callable[Concatenate[Connection, Asked], Result],
) -> Callable[Concatenate[OverDatabase, Asked], Result]:
    """A method with the arguments of ``work`` that carries it out in a transaction."""

    def method(self: OverDatabase, *arguments: Asked.args, **named: Asked.kwargs) -> Result:
        return self.database.write(lambda connection: work(connection, *arguments, **named))

    return method
