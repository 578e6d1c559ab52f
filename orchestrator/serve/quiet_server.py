"""uvicorn's server without its ten wake-ups a second: it runs beside what the service measures."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

TICK_S = 1.0  # the Date of answers is refreshed this often (RFC 9110, section 6.6.1: to the second)
_DATE_TICK = 0  # the number of a tick that refreshes it, for uvicorn


class QuietServer(uvicorn.Server):
    """Ticks once a second, and ends at once when it is told to.

    Args:
        ending: called in the event loop's thread when the end has begun, so that what waits there may go.
        lost: asked at every tick; a reason to end as if it had been told to.

    Attributes:
        ticks: how many there were.
    """

    def __init__(
        self, config: uvicorn.Config, ending: Callable[[], None], lost: Callable[[], str | None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._ending = ending
        self._lost = lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()
        self.ticks = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._told.set)  # a signal's handler: the loop sleeps meanwhile

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(_DATE_TICK) and not self._lost():
            self.ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), TICK_S)
        self.should_exit = True
        self._ending()
