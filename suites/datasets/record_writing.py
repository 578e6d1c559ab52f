"""Writes images as records of TensorFlow and of MXNet, for samples that are made here. Standard library only."""

import os
import struct
from typing import BinaryIO

from suites.datasets.image_folder import listing
from suites.datasets.records import MAGIC, masked_crc


def write_tfrecord(file: BinaryIO, label: int, image: bytes) -> None:
    """Append a record; ``label`` counts from 1, as in TensorFlow's files of ImageNet."""
    features = (
        (b"image/encoded", _message(1, _message(1, image))),
        (b"image/class/label", _message(3, _message(1, _varint(label)))),
    )
    entries = b"".join(_message(1, _message(1, name) + _message(2, feature)) for name, feature in features)
    data = _message(1, entries)
    head = struct.pack("<Q", len(data))
    file.write(head + struct.pack("<I", masked_crc(head)) + data + struct.pack("<I", masked_crc(data)))


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found) + bytes([value])


def write_recordio(file: BinaryIO, label: int, image: bytes) -> None:
    """Append a record; ``label`` counts from 0."""
    data = struct.pack("<IfQQ", 0, label, 0, 0) + image
    parts = [data]
    # As dmlc-core does: where the magic number stands at a multiple of 4 it is left out, and the record cut there.
    magic = struct.pack("<I", MAGIC)
    while True:
        at = next((at for at in _found(parts[-1], magic) if at % 4 == 0), None)
        if at is None:
            break
        parts[-1:] = [parts[-1][:at], parts[-1][at + 4 :]]
    for number, part in enumerate(parts):
        flag = 0 if len(parts) == 1 else 1 if not number else 3 if number == len(parts) - 1 else 2
        file.write(magic + struct.pack("<I", flag << 29 | len(part)) + part + bytes(-len(part) % 4))


def _found(data: bytes, part: bytes):
    at = data.find(part)
    while at >= 0:
        yield at
        at = data.find(part, at + 1)


def pack(layout: str, source: str, folder: str, shards: int) -> None:
    """Write the images of ``source``, which are in folders, as files of records below ``folder``.

    Names are those of ImageNet's: ``train-00000-of-00004`` and ``validation-…`` of TensorFlow, ``train_0.rec`` and
    ``val_0.rec`` of MXNet, each beside its index ``.idx``.
    """
    for split in ("train", "val"):
        found = listing.files(source, split)
        for shard in range(shards):
            _pack_shard(layout, os.path.join(folder, _name(layout, split, shard, shards)), found[shard::shards])


def _name(layout, split, shard, shards):
    if layout == "recordio":
        return "%s_%d.rec" % (split, shard)
    return "%s-%05d-of-%05d" % ("validation" if split == "val" else split, shard, shards)


def _pack_shard(layout, path, entries):
    offsets = []
    with open(path, "wb") as file:
        for entry in entries:
            offsets.append(file.tell())
            with open(entry.path, "rb") as image:
                encoded = image.read()
            if layout == "recordio":
                write_recordio(file, entry.label, encoded)
            else:
                write_tfrecord(file, entry.label + 1, encoded)
    if layout == "recordio":
        with open(records_index(path), "w", encoding="utf-8") as file:
            file.writelines("%d\t%d\n" % row for row in enumerate(offsets))


def records_index(path: str) -> str:
    """Return the path of MXNet's own index of a ``.rec`` file."""
    return os.path.splitext(path)[0] + ".idx"
