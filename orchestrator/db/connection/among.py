"""``among``: whether a column has one of many values, which are one parameter of the statement, however many they are.

``in_`` makes a parameter of each value, and databases take a bounded number of them: PostgreSQL 65,535, SQLite 32,766
unless it was built otherwise. So ``in_`` is only for lists that are written down in the code; a test holds this room to
that.
"""

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, Boolean, ColumnElement, Dialect, Select, Text, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine


def among(column: ColumnElement[Any], values: Collection[str] | Select[Any]) -> ColumnElement[bool]:
    """Whether ``column`` is one of ``values``, or of what a query finds."""
    if isinstance(values, Select):
        return column.in_(values)
    return _Among(column, literal(list(values), _Values()))


class _Values(TypeDecorator[list[str]]):
    """Texts: an array where the database has such, else JSON."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return ARRAY(Text()) if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: list[str] | None, dialect: Dialect) -> Any:
        return value if dialect.name == "postgresql" else json.dumps(value)


class _Among(FunctionElement[bool]):
    """(column, values)."""

    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> Any:
        """Itself: a comparison already. SQLAlchemy would compare it to 1 on SQLite, which then uses no index."""
        return self


@compiles(_Among, "postgresql")
def _in_array(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} = ANY ({values})"


@compiles(_Among, "sqlite")
def _in_json(element: _Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"
