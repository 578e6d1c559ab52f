"""Decodes images by threads, ahead of the training that they are for."""

import collections
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, List, Sequence

from workers.trainer.base.ahead import decoders

# Judgement: so many batches are made ahead.
AHEAD = 4


def ahead(lists: Iterator[Sequence[Any]], decode: Callable[[Any], Any]) -> Iterator[List[Any]]:
    """Yield for each of endless ``lists`` what ``decode`` makes of its items, in their order.

    Raises (while it is iterated):
        Exception: what ``decode`` raises.
    """
    pool = ThreadPoolExecutor(decoders())
    waiting = collections.deque()  # type: Any
    try:
        while True:
            while len(waiting) < AHEAD:
                waiting.append([pool.submit(decode, item) for item in next(lists)])
            yield [one.result() for one in waiting.popleft()]
    finally:
        for batch in waiting:
            for one in batch:
                one.cancel()
        pool.shutdown()
