"""Images in folders for MXNet: decoded and cut by Pillow in threads, ahead of the training.

Threads and not processes: MXNet's engine does not like to be forked, and Pillow decodes and scales without holding up
the interpreter.

Dimensions: N images of a batch, C channels, H height, W width.
"""

import collections
import concurrent.futures
from typing import Any, Iterator, Optional, Sequence, Tuple

import mxnet as mx
import numpy

from suites.datasets.image_folder import listing, pillow_decoding
from workers.trainer.base import ahead

# Judgement: batches made ahead by each thread.
AHEAD = 4


# How an image is evaluated.
from_the_middle = pillow_decoding.from_the_middle


def batches(root: Optional[str], count: int, pixels: int, seed: int, rank: int, world_size: int) -> Iterator[Any]:
    """Return an endless iterator of (images_NCHW, labels_N).

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a folder or a file cannot be read; the message names it.
    """
    return _ahead(listing.batches(listing.files(root), count, seed, rank, world_size), pixels)


def _ahead(lists, pixels):
    """Yield the batches of ``lists`` of samples, while those that come are made."""
    threads = ahead.decoders()
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    made = collections.deque()
    try:
        for samples in lists:
            made.append(pool.submit(decode, samples, pixels))
            if len(made) > AHEAD * threads:
                images_NCHW, labels_N = made.popleft().result()
                yield mx.nd.array(images_NCHW, dtype="float32"), mx.nd.array(labels_N, dtype="int32")
    finally:
        for future in made:
            future.cancel()
        pool.shutdown()


def decode(samples: Sequence[listing.Sample], pixels: int) -> Tuple[numpy.ndarray, numpy.ndarray]:
    """Return (images_NCHW, labels_N) of a list of samples.

    Raises:
        TrainerError: ``setup_failed``, a file cannot be read.
    """
    images_NCHW = numpy.empty((len(samples), 3, pixels, pixels), numpy.float32)
    for position, sample in enumerate(samples):
        try:
            images_NCHW[position] = pillow_decoding.decode(sample, pixels)
        except (OSError, ValueError, SyntaxError) as error:
            raise listing.unreadable(sample.entry, error)
    return images_NCHW, numpy.array([sample.label for sample in samples], numpy.int32)
