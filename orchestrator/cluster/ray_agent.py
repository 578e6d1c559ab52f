"""The actor that holds a node's agent. Runs in a Ray worker process on that node and only passes calls on.

A plain class, so that importing it costs no import of Ray; ``ray_cluster`` makes the actor of it.
"""

import os
import threading
from typing import Any

from workers.node.agent import Agent
from workers.node.server import METHODS

# Time for the answer of ``leave`` to go out.
_LAST_WORD_S = 0.2


class AgentActor:
    """See ``workers.node.agent.Agent`` for the arguments. Its methods are safe to call from several threads."""

    def __init__(self, directory: str, node: str, fence_s: float) -> None:
        self._agent = Agent(directory, node, fence_s)
        self._here = threading.local()

    def answer(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a method of the agent: ``{"result"}``, or ``{"error"}`` with its type and message."""
        return self.answer_in_term(None, method, arguments)

    def answer_in_term(self, term: int | None, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The same for a server of a database with terms."""
        if not hasattr(self._here, "stepped_back"):  # Ray has threads of its own for this
            self._agent.step_back()
            self._here.stepped_back = True
        try:
            if method not in METHODS:
                raise ValueError(f"unknown method {method!r}")
            self._agent.heed(term)
            return {"result": getattr(self._agent, method)(**arguments)}
        except Exception as error:  # belongs to the caller
            return {"error": f"{type(error).__name__}: {error}"}

    def process(self) -> int:
        """The process id of the agent on its node."""
        return os.getpid()

    def leave(self) -> None:
        """End all attempts, then the process itself."""
        self._agent.close()
        threading.Timer(_LAST_WORD_S, os._exit, (0,)).start()
