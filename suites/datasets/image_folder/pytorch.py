"""Images in folders for PyTorch: decoded and cut by Pillow in the processes of a ``DataLoader``, ahead of the training.

Dimensions: N images of a batch, C channels, H height, W width.
"""

from typing import Any, Iterator, Optional, Sequence

import torch
from torch.utils.data import DataLoader, Dataset

from suites.datasets.image_folder import listing, pillow_decoding
from workers.trainer.base import ahead
from workers.trainer.base.failure import TrainerError

# Judgement: batches made ahead by each process, at most.
AHEAD = 4
FLOAT_BYTES = 4


# How an image is evaluated.
from_the_middle = pillow_decoding.from_the_middle


def batches(root: Optional[str], count: int, pixels: int, seed: int, rank: int, world_size: int) -> Iterator[Any]:
    """Return an endless iterator of (images_NCHW, labels_N).

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a folder or a file cannot be read; the message names it.
    """
    found = listing.files(root)
    processes, ahead_each = ahead.in_flight(count * 3 * pixels * pixels * FLOAT_BYTES, AHEAD)
    loader = DataLoader(
        Decoder(pixels),
        batch_sampler=listing.batches(found, count, seed, rank, world_size),
        num_workers=processes,
        prefetch_factor=ahead_each,
        collate_fn=collate,
        pin_memory=torch.cuda.is_available(),
    )
    return _checked(loader)


def _checked(loader):
    for batch in loader:
        if isinstance(batch, str):
            raise TrainerError("setup_failed", batch)
        yield batch


class Decoder(Dataset):
    """Turns a sample into (image_CHW, label), or into the message of what is wrong with its file."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels

    def __getitem__(self, sample):
        # A message, since an exception of our own would not survive the way out of the loader's process.
        try:
            return torch.from_numpy(pillow_decoding.decode(sample, self._pixels)), sample.label
        except (OSError, ValueError, SyntaxError) as error:
            return str(listing.unreadable(sample.entry, error))


def collate(items: Sequence[Any]) -> Any:
    """Return (images_NCHW, labels_N), or the first message among the items."""
    for item in items:
        if isinstance(item, str):
            return item
    return torch.stack([image_CHW for image_CHW, _ in items]), torch.tensor([label for _, label in items])
