"""The real clock, and identifiers made with it."""

import secrets
import time

from orchestrator.domain.words.ids import make_id


class SystemClock:
    """``domain.ports.Clock`` over the clocks of this host."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def new_id(prefix: str) -> str:
    """A new opaque identifier: ``exp_…``, ``run_…``, ``att_…``."""
    return make_id(prefix, time.time_ns(), secrets.randbits(50))


def new_token() -> str:
    """A new secret of an attempt."""
    return secrets.token_hex(16)
