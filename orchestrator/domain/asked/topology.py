"""How many machines a training takes, and how many devices of each."""

import re
from dataclasses import dataclass

_FORM = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


@dataclass(frozen=True, order=True)
class Topology:
    """Written as ``MxD``, such as 1x2."""

    nodes: int
    devices_per_node: int

    @classmethod
    def parse(cls, text: str) -> "Topology":
        """The topology that ``text`` is.

        Raises:
            ValueError: it is none.
        """
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise ValueError(f"{text!r} is no topology: write machines x devices per machine, such as 1x2")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}"

    @property
    def world_size(self) -> int:
        """The number of its ranks."""
        return self.nodes * self.devices_per_node
