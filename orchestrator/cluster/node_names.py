"""What nodes are called: drains, pinned runs and histories go by that.

A node is called by its host name, or as whoever starts it says (``TBD_NODE_NAME``): the host name of a pod is another
one with each start. What lies on a machine tells machines apart no better: images are cloned with their machine-id, and
containers have none or their image's. So of two that live at once the second gets a suffix, whatever they have in
common.
"""

import os
import re
import socket
from collections.abc import Callable, Collection, Mapping

from orchestrator.domain.words.errors import SettingsError

VARIABLE = "TBD_NODE_NAME"
_NAME = re.compile("[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def given_name(environment: Mapping[str, str] = os.environ) -> str | None:
    """The name that this host's node was given.

    Raises:
        SettingsError: none can be called so.
    """
    name = environment.get(VARIABLE) or None
    if name is not None and not is_name(name):
        raise SettingsError(f"{VARIABLE}={name!r}: a name has up to 63 letters, digits, and . _ - between them")
    return name


def is_name(text: str) -> bool:
    """Whether a node may be called so: folders are."""
    return _NAME.fullmatch(text) is not None


def own_name() -> str:
    """What this host's node is called. Raises as ``given_name``."""
    return given_name() or socket.gethostname()


def name_in_ray(node: Mapping[str, str]) -> str:
    """What a node of Ray is called, by what Ray tells of it; whose name was not given Ray calls by its address."""
    given = node.get("NodeName") or ""
    return given if was_given(node) and is_name(given) else node["NodeManagerHostname"]


def was_given(node: Mapping[str, str]) -> bool:
    """Whether whoever started this node of Ray named it."""
    return node.get("NodeName") not in (None, "", node["NodeManagerAddress"])


def free_name(wanted: str, taken: Collection[str], has_left: Callable[[str], bool]) -> str | None:
    """``wanted``, or with a suffix where that is taken: ``host-2``. None: not yet, as the node that has the name was
    this very machine, and has left (``has_left``) without being given up yet: then the name is free again."""
    number = 1
    while (name := wanted if number == 1 else f"{wanted}-{number}") in taken:
        if has_left(name):
            return None
        number += 1
    return name
