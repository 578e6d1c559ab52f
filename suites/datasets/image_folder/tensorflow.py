"""Images in folders for TensorFlow: decoded and cut by ``tf.data`` in threads, ahead of the training.

Dimensions: N images of a batch, H height, W width, C channels.
"""

import collections
import threading
from typing import Any, Iterator, Optional, Tuple

import tensorflow as tf

from suites.datasets.image_folder import listing
from workers.trainer.base import ahead
from workers.trainer.base.failure import TrainerError

# Judgement: batches made ahead.
AHEAD = 4


def batches(root: Optional[str], count: int, pixels: int, seed: int, rank: int, world_size: int) -> Iterator[Any]:
    """Return an endless iterator of (images_NHWC, labels_N).

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a folder or a file cannot be read; the message names it.
    """
    found = listing.files(root)
    threads = ahead.decoders()
    recent = collections.deque(maxlen=count * (AHEAD + 2) + 2 * threads)
    over = threading.Event()
    signature = (
        tf.TensorSpec((), tf.string),
        tf.TensorSpec((), tf.int64),
        tf.TensorSpec((4,), tf.int32),
        tf.TensorSpec((), tf.bool),
    )
    cuts = tf.data.Dataset.from_generator(
        lambda: _cuts(listing.samples(found, seed, rank, world_size), recent, over), output_signature=signature
    )
    # A file is read by the threads that decode it; a record, which is found in Python, comes as it is.
    read = tf.identity if found[0].layout else tf.io.read_file

    # Without AutoGraph, which has nothing to convert here and takes its time.
    @tf.autograph.experimental.do_not_convert
    def image(place, *sample):
        return decode(read(place), *sample, pixels=pixels)

    images = cuts.map(image, num_parallel_calls=threads, deterministic=True)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return _checked(images.batch(count, drop_remainder=True).prefetch(AHEAD).with_options(options), recent, over)


def _cuts(samples, recent, over):
    """Yield (path or encoded image, label, window, mirrored) of each sample until it is ``over``, and note it."""
    sizes = {}
    for entry, draw in samples:
        if over.is_set():
            return
        recent.append(entry)
        if entry not in sizes:
            sizes[entry] = listing.jpeg_size(entry)
        cut = listing.cut(draw, *sizes[entry])
        place = _encoded(entry) if entry.layout else entry.path
        yield place, entry.label, (cut.top, cut.left, cut.height, cut.width), cut.mirrored


def _encoded(entry):
    """Return the image as it is stored."""
    try:
        return listing.encoded(entry)
    except (OSError, ValueError) as error:
        raise listing.unreadable(entry, error)


def decode(
    encoded: tf.Tensor, label: tf.Tensor, window: tf.Tensor, mirrored: tf.Tensor, pixels: int
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return (image_HWC, label): the cut, ``pixels`` square, normalised."""
    image_HWC = tf.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method="INTEGER_ACCURATE")
    # Pillow, too, filters before it makes an image smaller.
    image_HWC = tf.image.resize(image_HWC, (pixels, pixels), "bilinear", antialias=True)
    image_HWC = tf.cond(mirrored, lambda: tf.reverse(image_HWC, [1]), lambda: image_HWC)
    image_HWC = (image_HWC / 255.0 - listing.MEAN) / listing.DEVIATION
    return tf.ensure_shape(image_HWC, (pixels, pixels, 3)), label


def from_the_middle(entry: listing.Entry, pixels: int) -> Any:
    """Return image_HWC, a numpy array, as a classifier is evaluated with it: see ``listing.middle``.

    Raises:
        TrainerError: ``setup_failed``, the image cannot be read.
    """
    cut = listing.middle(*listing.jpeg_size(entry))
    window = (cut.top, cut.left, cut.height, cut.width)
    try:
        return decode(_encoded(entry), 0, window, tf.constant(False), pixels)[0].numpy()
    except tf.errors.OpError as error:
        raise listing.unreadable(entry, error.message)


def _checked(dataset, recent, over):
    """Yield the batches; an error of the pipeline becomes one that names the file."""
    iterator = iter(dataset)
    try:
        while True:
            try:
                batch = next(iterator)
            except tf.errors.OpError as error:
                _name_culprit(list(recent))
                raise TrainerError("setup_failed", "cannot read the dataset: %s" % error.message)
            yield batch
    finally:
        over.set()
        _drain(iterator)


def _drain(iterator):
    """Take what was made ahead. A pipeline taken down in full flow waits for its Python part, at times for long."""
    try:
        for _ in iterator:
            pass
    except tf.errors.OpError:
        # What ends the attempt has been reported.
        pass


def _name_culprit(entries):
    """The pipeline does not say which image it choked on: try those it read last, one by one."""
    for entry in entries:
        listing.jpeg_size(entry)
        try:
            tf.io.decode_jpeg(_encoded(entry), channels=3)
        except tf.errors.OpError as error:
            raise listing.unreadable(entry, error.message)
