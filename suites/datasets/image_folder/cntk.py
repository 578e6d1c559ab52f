"""Images in folders for CNTK: decoded and cut by Pillow in threads, ahead of the training.

Threads are enough: Pillow decodes, and CNTK trains, without holding Python's lock. Dimensions: N images of a batch,
C channels, H height, W width.
"""

import collections
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator, Optional

import cntk
import numpy

from suites.datasets.image_folder import listing, pillow_decoding
from workers.trainer.base import ahead

# Judgement: batches made ahead.
AHEAD = 4


# How an image is evaluated.
from_the_middle = pillow_decoding.from_the_middle


def batches(root: Optional[str], count: int, pixels: int, seed: int, rank: int, world_size: int) -> Iterator[Any]:
    """Return an endless iterator of (images_NCHW, labels_N).

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a folder or a file cannot be read; the message names it.
    """
    found = listing.files(root)
    return _stream(listing.batches(found, count, seed, rank, world_size), pixels)


def _stream(samples, pixels):
    pool = ThreadPoolExecutor(ahead.decoders())
    waiting = collections.deque()
    try:
        while True:
            while len(waiting) < AHEAD:
                waiting.append([(pool.submit(_decode, sample, pixels), sample.label) for sample in next(samples)])
            items = [(image.result(), label) for image, label in waiting.popleft()]
            images_NCHW = numpy.stack([image_CHW for image_CHW, _ in items])
            labels_N = numpy.array([label for _, label in items], dtype=numpy.float32)
            yield cntk.Value(images_NCHW), cntk.Value(labels_N)
    finally:
        for batch in waiting:
            for image, _ in batch:
                image.cancel()
        pool.shutdown()


def _decode(sample, pixels):
    try:
        return pillow_decoding.decode(sample, pixels)
    except (OSError, ValueError, SyntaxError) as error:
        raise listing.unreadable(sample.entry, error)
