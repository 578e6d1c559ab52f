"""Who and where, out of a record: the names of nodes, hosts, users and files, and addresses, each by one other name.

The same name is replaced by the same one everywhere, so that what was equal stays equal, and no number changes.
"""

import getpass
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# Keys whose text is a name of that kind, in records and logs.
_KINDS = {
    "node": "node",
    "host": "host",
    "hostname": "host",
    "owner": "user",
    "user": "user",
    "username": "user",
    "uuid": "device",
    "serial": "device",
    "boot_id": "boot",
}
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"  # IPv4; a version of four numbers is taken for one as well
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{1,4})*(?![\w:])"  # IPv6
    r"|(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"  # a card's
)
# Two parts or more: /proc and the like tell nothing, and a division has none.
_PATH = re.compile(r"(?<![\w.:/<])/[\w.+@~-]+(?:/[\w.+@~-]+)+/?")
_GPU = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# No name: a person called so would not be found by it, and words of logs would be replaced.
_USUAL = frozenset({"", "localhost", "local", "root", "head", "cpu", "cuda", "127.0.0.1", "::1", "0.0.0.0"})


class Names:
    """Names that were met, each with the one that stands for it."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._words: re.Pattern[str] | None = None
        with suppress(KeyError, OSError):  # a container's user may have no name
            self.note(getpass.getuser(), "user")

    def note(self, name: Any, kind: str) -> None:
        if isinstance(name, str) and name not in _USUAL and name not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[name] = f"{kind}-{self._counts[kind]}"
            self._words = None

    def look_for(self, value: Any, key: str = "", above: str = "") -> None:
        """Note the names in ``value``, which stands below ``key``, and that below ``above``."""
        if isinstance(value, Mapping):
            for name, one in value.items():
                if key in ("nodes", "hosts") and isinstance(one, Mapping):  # those of a rig, by name
                    self.note(name, "node")
                self.look_for(one, name, key)
        elif isinstance(value, list):
            for one in value:
                self.look_for(one, "" if isinstance(one, Mapping) else key, above)
        elif key in _KINDS:
            self.note(value, _KINDS[key])
        elif key == "node_names" or (above, key) == ("nodes", "names"):  # a profile has names of kernels
            self.note(value, "node")

    def replaced(self, value: Any) -> Any:
        """``value`` with other names, in keys too."""
        if isinstance(value, Mapping):
            return {self._text(name): self.replaced(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.replaced(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = self._one_by_one(_GPU, text, "device")
        text = self._one_by_one(_PATH, text, "/path")
        text = self._one_by_one(_ADDRESS, text, "address")
        if self._words is None:
            names = sorted(self._known, key=len, reverse=True)
            self._words = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w-])")
        return self._words.sub(lambda found: self._known[found[0]], text) if self._known else text

    def _one_by_one(self, pattern: re.Pattern[str], text: str, kind: str) -> str:
        def other(found: re.Match[str]) -> str:
            self.note(found[0], kind)
            return self._known.get(found[0], found[0])

        return pattern.sub(other, text)
