"""What all tables share: their registry, and two types of columns."""

from sqlalchemy import BigInteger, Integer, MetaData, Text

# Names of constraints are fixed, so that migrations can speak of them on both databases.
metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

# Identifiers and names of nodes: compared byte by byte on both databases, so that orders are the same.
Key = Text().with_variant(Text(collation="C"), "postgresql")
Count = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER can be SQLite's own row number
