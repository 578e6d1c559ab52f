"""Dataclasses as JSON has them: one way there and one way back for all that are stored or sent."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Plain:
    """Base of a dataclass whose JSON has its fields by their names: what is a tuple as a list, a word of a closed list
    as its text, a part that is a dataclass as it has it by itself."""

    def to_json(self) -> dict[str, Any]:
        return _by_field(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What ``to_json`` made. A number that is not finite may have travelled as text; a key that is no field is left
        out.

        Raises:
            ValueError: a field is missing that has no default, or is of another kind.
        """
        made: Self = reader_of(cls).validate_python(data)
        return made


_AS_IT_IS = frozenset({str, int, float, bool, type(None)})
_READERS: dict[type, "TypeAdapter[Any]"] = {}


def reader_of(kind: type) -> "TypeAdapter[Any]":
    """What makes a ``kind`` of its fields, and checks these."""
    if kind not in _READERS:
        from pydantic import TypeAdapter  # what only writes waits for no import of it

        _READERS[kind] = TypeAdapter(kind)
    return _READERS[kind]


def plain(value: Any) -> Any:
    """``value`` as JSON has it, with all of its parts."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Plain):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if is_dataclass(value):
        return _by_field(value)
    return value


def _by_field(thing: Any) -> dict[str, Any]:
    return {name: plain(getattr(thing, name)) for name in thing.__dataclass_fields__}
