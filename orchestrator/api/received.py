"""Bodies that are files: they are taken in through a file, and one at a time."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from typing import Annotated, BinaryIO, NamedTuple

from fastapi import Depends, Request


class Received(NamedTuple):
    """A body, in a file, and its digest."""

    file: BinaryIO
    sha256: str


def one_at_a_time() -> asyncio.Semaphore:
    """For ``app.state.imports``: files that are taken in side by side would share what is left of the cores, and those
    that wait must not hold the threads that serve everybody else."""
    return asyncio.Semaphore(1)


async def _received(request: Request) -> AsyncIterator[Received]:
    """The body in a file: of a long one no more is in memory than what is being looked at."""
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as file:
        async for chunk in request.stream():
            file.write(chunk)
            digest.update(chunk)
        async with request.app.state.imports:
            yield Received(file, digest.hexdigest())


ReceivedBody = Annotated[Received, Depends(_received)]
