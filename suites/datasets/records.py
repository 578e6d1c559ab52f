"""Files of many images each: TensorFlow's TFRecord and MXNet's RecordIO. Standard library only.

A split is some files whose names begin with its name. An index, ``<split>.index`` in the prepared dataset, says where
in which file each image begins, so that images can be read in any order, in every framework alike; nothing is copied.

TFRecord (tensorflow/core/lib/io/record_writer.h): length (8 bytes, little-endian), its masked CRC-32C, the data, its
masked CRC-32C; the data is a ``tf.train.Example`` with ``image/encoded`` and ``image/class/label``, as the scripts of
TensorFlow's models write ImageNet. RecordIO (dmlc-core, recordio.h): a magic number, 3 bits of flag and 29 of length,
the data filled up to 4 bytes; a record whose data holds the magic number is cut there into parts. The data is MXNet's
``IRHeader`` (flag, label, two ids; ``flag`` further labels) and the image.
"""

import json
import os
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Tuple

SPLITS = {"train": ("train",), "val": ("val", "validation")}
MAGIC = 0xCED7230A


class RecordError(ValueError):
    """A record is not what it should be; the message says how."""


class Place(NamedTuple):
    """Where an image is: the file, and the byte at which its record begins."""

    path: str
    offset: int


def _crc_table() -> List[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C of TFRecord (RFC 3720, B.4; the mask is TensorFlow's)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _read(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise RecordError("the file ends within the record")
    return data


def _tfrecord(file: BinaryIO) -> bytes:
    head = _read(file, 8)
    if struct.unpack("<I", _read(file, 4))[0] != masked_crc(head):
        raise RecordError("the length of the record does not fit its checksum")
    data = _read(file, struct.unpack("<Q", head)[0])
    _read(file, 4)
    return data


def _recordio(file: BinaryIO) -> bytes:
    parts = []
    while True:
        magic, word = struct.unpack("<II", _read(file, 8))
        if magic != MAGIC:
            raise RecordError("the record does not begin with RecordIO's magic number")
        flag, length = word >> 29, word & 0x1FFFFFFF
        parts.append(_read(file, length))
        _read(file, -length % 4)
        # 0: a whole record; 1: its first part, 2: one in the middle, 3: the last.
        if flag in (0, 3):
            return struct.pack("<I", MAGIC).join(parts)


def _fields(data: bytes) -> Iterator[Tuple[int, Any]]:
    """Yield (number, value) of the fields of a protocol buffer: bytes, or an integer."""
    at = 0
    value: Any
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            if at > len(data):
                raise RecordError("a field of the record is longer than the record")
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            value, at = data[at : at + width], at + width
        else:
            raise RecordError("the record is no protocol buffer")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise RecordError("the record is no protocol buffer")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def _first(data: bytes, *numbers: int) -> Any:
    """Return the first field on a path of nested messages, or None."""
    for number in numbers:
        data = next((value for found, value in _fields(data) if found == number), None)  # type: ignore[assignment]
        if data is None:
            return None
    return data


def _of_example(data: bytes) -> Tuple[int, bytes]:
    """Return (label, encoded image) of a ``tf.train.Example`` (tensorflow/core/example/example.proto)."""
    features = {}
    for number, entry in _fields(_first(data, 1) or b""):
        name, feature = _first(entry, 1), _first(entry, 2)
        if number == 1 and name in (b"image/encoded", b"image/class/label"):
            features[name] = feature or b""
    image = _first(features.get(b"image/encoded", b""), 1, 1)
    label = _first(features.get(b"image/class/label", b""), 3, 1)
    if image is None or label is None:
        raise RecordError("the record has no image/encoded, or no image/class/label")
    # A list of integers is packed, or not.
    return (label if isinstance(label, int) else _varint(label, 0)[0]), image


def _of_image_record(data: bytes) -> Tuple[int, bytes]:
    """Return (label, encoded image) of MXNet's image record (python/mxnet/recordio.py: IRHeader)."""
    if len(data) < 24:
        raise RecordError("the record is too short for the header of an image")
    flag, label = struct.unpack("<If", data[:8])
    if not flag:
        return int(label), data[24:]
    if len(data) < 24 + 4 * flag:
        raise RecordError("the record is too short for its labels")
    return int(struct.unpack("<f", data[24:28])[0]), data[24 + 4 * flag :]


class Layout(NamedTuple):
    """``is_one``: whether a file name is of this layout."""

    record: Callable[[BinaryIO], bytes]
    image: Callable[[bytes], Tuple[int, bytes]]
    is_one: Callable[[str], bool]


LAYOUTS = {
    "tfrecord": Layout(_tfrecord, _of_example, lambda name: not name.endswith((".idx", ".index", ".txt", ".json"))),
    "recordio": Layout(_recordio, _of_image_record, lambda name: name.endswith(".rec")),
}


def image_at(layout: str, place: Place) -> Tuple[int, bytes]:
    """Return (label, encoded image).

    Raises:
        OSError: the file cannot be read.
        RecordError: there is no such record at the place.
    """
    with open(place.path, "rb") as file:
        file.seek(place.offset)
        return LAYOUTS[layout].image(LAYOUTS[layout].record(file))


def scan(layout: str, path: str) -> Iterator[Tuple[int, int, bytes]]:
    """Yield (offset, label, encoded image) of all records of a file.

    Raises:
        OSError: the file cannot be read.
        RecordError: a record is damaged; the message has the file and the byte.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        while True:
            offset = file.tell()
            if offset == size:
                return
            try:
                label, image = LAYOUTS[layout].image(LAYOUTS[layout].record(file))
            except RecordError as error:
                raise RecordError("%s: the record at byte %d: %s" % (path, offset, error))
            yield offset, label, image


def files(layout: str, source: str) -> Dict[str, List[str]]:
    """Return the paths of each split, sorted.

    Raises:
        OSError: the folder cannot be read.
        RecordError: there are none for training.
    """
    names = sorted(name for name in os.listdir(source) if LAYOUTS[layout].is_one(name) and not name.startswith("."))
    found = {
        split: [os.path.join(source, name) for name in names if name.startswith(begins)]
        for split, begins in SPLITS.items()
    }
    if not found["train"]:
        raise RecordError("%s: there is no %s file whose name begins with train" % (source, layout))
    return {split: paths for split, paths in found.items() if paths}


def write_indexes(layout: str, source: str, root: str) -> None:
    """Write ``<split>.index`` below ``root`` for each split of ``source``.

    Raises:
        SystemExit: a file is missing or damaged; the message names it.
    """
    try:
        for split, paths in files(layout, source).items():
            entries = [(number, at, label) for number, path in enumerate(paths) for at, label, _ in scan(layout, path)]
            # By their names alone where they lie beside it: the folder may still be renamed.
            named = [os.path.basename(path) if source == root else os.path.abspath(path) for path in paths]
            with open(os.path.join(root, split + ".index"), "w", encoding="utf-8") as file:
                json.dump({"layout": layout, "files": named, "images": len(entries)}, file)
                file.writelines("\n%d %d %d" % entry for entry in entries)
    except (OSError, RecordError) as error:
        raise SystemExit("cannot read the dataset: %s" % error)


def read_index(path: str) -> Tuple[str, List[Tuple[Place, int]]]:
    """Return (layout, [(place, label)]) of an index, labels counted from 0: ImageNet's begin at 1 in some files.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    with open(path, encoding="utf-8") as file:
        head, rows = json.loads(file.readline()), [tuple(map(int, line.split())) for line in file]
    if len(rows) != head["images"]:
        raise ValueError("%s lists %d images and should list %d" % (path, len(rows), head["images"]))
    paths = [os.path.join(os.path.dirname(path), name) for name in head["files"]]
    number_of = {label: number for number, label in enumerate(sorted({label for _, _, label in rows}))}
    return head["layout"], [(Place(paths[file], at), number_of[label]) for file, at, label in rows]
