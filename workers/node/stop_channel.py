"""Telling rank 0 to stop: the agent's side of the trainer's control channel.

One JSON object a line over TCP: ``{"token", "role": "agent"}``, then ``{"stop": reason}``. All ranks then stop at the
same step, which rank 0 chooses.
"""

from __future__ import annotations

import json
import socket
from typing import Any, Mapping

_PATIENCE_S = 2.0


def send_stop(job: Mapping[str, Any], reason: str) -> bool:
    """Tell rank 0 of ``job`` to stop for ``reason``; return whether it could be told."""
    hello = {"token": job["token"], "role": "agent"}
    text = "".join(json.dumps(line) + "\n" for line in (hello, {"stop": reason}))
    try:
        with socket.create_connection((job["control"]["host"], job["control"]["port"]), timeout=_PATIENCE_S) as channel:
            channel.sendall(text.encode())
            # Closing with something unread would be a reset, which can overtake the line: read until the other side
            # closes, or for a moment.
            channel.settimeout(0.1)
            while channel.recv(4096):
                pass
    except socket.timeout:
        return True
    except OSError:
        return False
    return True
