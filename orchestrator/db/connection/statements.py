"""Statements of the hot paths: compiled once for each database and run by the driver itself.

SQLAlchemy's own ``execute`` costs more than SQLite needs for the insert.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Table, bindparam
from sqlalchemy.dialects.postgresql.psycopg import dialect as postgresql_dialect
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

DIALECTS: dict[str, Dialect] = {
    "sqlite": sqlite_dialect(paramstyle="qmark"),
    "postgresql": postgresql_dialect(paramstyle="format"),
}


class Insert:
    """``INSERT`` of rows, each a tuple of the values of ``columns`` in their order, or (none given) of all columns.
    Where one is there already with the same values of ``unless_same`` nothing is done, or ``then`` (in SQL).
    """

    def __init__(self, table: Table, *columns: str, unless_same: Sequence[str] = (), then: str = "NOTHING") -> None:
        columns = columns or tuple(column.name for column in table.columns)
        statement = table.insert().values({name: bindparam(name) for name in columns})
        self.texts = {}
        for name, dialect in DIALECTS.items():
            compiled = statement.compile(dialect=dialect, column_keys=list(columns))
            order = list(getattr(compiled, "positiontup", None) or ())
            assert sorted(order) == sorted(columns), order
            assert order == list(columns), f"give the columns in the table's order: {order}"
            unless = f" ON CONFLICT ({', '.join(unless_same)}) DO {then}" if unless_same else ""
            self.texts[name] = str(compiled) + unless

    def one(self, connection: Connection, row: Sequence[Any]) -> int:
        """Insert one row; how many were inserted."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self.texts[connection.dialect.name], row)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def many(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows; how many were inserted."""
        if len(rows) == 1:
            return self.one(connection, rows[0])
        if not rows:
            return 0
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(self.texts[connection.dialect.name], rows)
            return int(cursor.rowcount)
        finally:
            cursor.close()
