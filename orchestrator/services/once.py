"""Requests that may come again: an ``Idempotency-Key`` names one, and it is carried out once."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

from orchestrator.domain.runs.stored import Idempotency
from orchestrator.services.context import Context

Answer = TypeVar("Answer")


def idempotency(owner: str, key: str, *request: Any) -> Idempotency:
    """The key with a digest of the request it came with: what was asked of what, and the body (as JSON)."""
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), default=str)
    return Idempotency(owner, key, hashlib.sha256(canonical.encode()).hexdigest())


def once(
    context: Context, key: Idempotency | None, act: Callable[[], Answer], look: Callable[[], Answer]
) -> tuple[Answer, bool]:
    """Do ``act`` unless ``key`` was used for it before; then ``look``. (the answer, whether it was done now).

    The key is noted after the act: a server that dies in between leaves a request that can be sent again, and all acts
    for which this is meant may be repeated.

    Raises:
        IdempotencyMismatch: the key was used for another request.
    """
    if key is not None and context.store.key_used(key):
        return look(), False
    answer = act()
    if key is not None:
        context.store.use_key(key)
    return answer, True
