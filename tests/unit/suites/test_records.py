"""Records of TensorFlow and MXNet: what is written is read, in every cut, and damage is named with file and byte."""

import io
import struct

import pytest
from PIL import Image

from suites.datasets import record_writing, records
from suites.datasets.image_folder import listing
from suites.datasets.registered import prepare
from workers.trainer.base import manifest
from workers.trainer.base.failure import TrainerError

LAYOUTS = ("tfrecord", "recordio")
MAGIC = struct.pack("<I", records.MAGIC)


def jpeg(number):
    data = io.BytesIO()
    Image.new("RGB", (40 + number, 30), (number * 20, 90, 7)).save(data, "JPEG")
    return data.getvalue()


@pytest.fixture
def images(tmp_path):
    """Seven images of three classes in folders."""
    for split, count in (("train", 7), ("val", 3)):
        for number in range(count):
            path = tmp_path / "images" / split / f"n{number % 3}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(number))
    return tmp_path / "images"


def packed(images, layout, folder, root=None):
    """The images as records in ``folder``, indexed in ``root``; the root."""
    folder.mkdir()
    record_writing.pack(layout, str(images), str(folder), 2)
    if root is None:
        records.write_indexes(layout, str(folder), str(folder))
        return folder
    root.mkdir()
    given = [
        "--root",
        root,
        "--source",
        folder,
        "--layout",
        layout,
        "--sha256",
        manifest.listing(str(folder))["sha256"],
    ]
    assert prepare.main([str(word) for word in given]) == 0
    return root


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("split", ["train", "val"])
def test_records_hold_the_images_of_the_folders_with_their_labels(images, layout, split, tmp_path):
    root = packed(images, layout, tmp_path / "records")
    root.rename(tmp_path / "elsewhere")
    found = listing.files(str(tmp_path / "elsewhere"), split)
    expected = listing.files(str(images), split)
    contents = sorted((listing.encoded(entry), entry.label) for entry in found)
    assert contents == sorted((listing.encoded(entry), entry.label) for entry in expected)
    assert {listing.jpeg_size(entry) for entry in found} == {listing.jpeg_size(entry) for entry in expected}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_that_were_registered_stay_where_they_are(images, layout, tmp_path):
    root = packed(images, layout, tmp_path / "records", tmp_path / "root")
    assert {path.name for path in root.iterdir()} == {"train.index", "val.index"}
    assert all(entry.path.startswith(str(tmp_path / "records")) for entry in listing.files(str(root)))
    assert len(listing.encoded(listing.files(str(root))[3])) > 100


@pytest.mark.parametrize(
    "data",
    [b"", b"a", MAGIC, b"abcd" + MAGIC, b"ab" + MAGIC + b"cd", MAGIC * 3 + b"x", b"abcd" + MAGIC + b"efgh" + MAGIC],
)
def test_a_record_that_holds_the_magic_number_comes_back_whole(data):
    file = io.BytesIO()
    record_writing.write_recordio(file, 5, data)
    assert len(file.getvalue()) % 4 == 0
    file.seek(0)
    assert records._of_image_record(records._recordio(file)) == (5, data)


def test_a_record_with_several_labels_has_the_first():
    data = struct.pack("<IfQQ", 2, 0.0, 0, 0) + struct.pack("<ff", 3.0, 4.0) + b"image"
    assert records._of_image_record(data) == (3, b"image")


def test_the_checksum_is_that_of_the_standard():
    """RFC 3720, B.4: 32 bytes of zeros give 8a9136aa."""
    crc = 0x8A9136AA
    assert records.masked_crc(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("damage", ["cut off", "overwritten"])
def test_a_damaged_file_is_named_with_the_byte(images, layout, damage, tmp_path):
    packed(images, layout, tmp_path / "records")
    files = sorted(path for path in (tmp_path / "records").iterdir() if path.name.startswith("train"))
    path = next(path for path in files if path.suffix not in (".idx", ".index"))
    data = path.read_bytes()
    path.write_bytes(data[:-50] if damage == "cut off" else b"\1\2\3\4" + data[4:])
    with pytest.raises(SystemExit, match=rf"{path.name}: the record at byte \d+: "):
        records.write_indexes(layout, str(path.parent), str(path.parent))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_that_changed_or_vanished_after_it_was_indexed_is_named(images, layout, tmp_path):
    root = packed(images, layout, tmp_path / "records", tmp_path / "root")
    entry = listing.files(str(root))[1]
    with open(entry.path, "wb") as file:
        file.write(b"0" * 5000)
    with pytest.raises(TrainerError, match=rf"{entry.path}, the record at byte {entry.offset}: "):
        listing.jpeg_size(entry)
    (tmp_path / "records").rename(tmp_path / "gone")
    with pytest.raises(TrainerError, match=rf"{entry.path}, the record at byte {entry.offset}: .*No such file"):
        listing.jpeg_size(entry)


def test_a_damaged_index_is_a_failed_set_up(images, tmp_path):
    root = packed(images, "tfrecord", tmp_path / "records")
    index = root / "train.index"
    index.write_text("\n".join(index.read_text().split("\n")[:-1]))
    with pytest.raises(TrainerError, match=r"train\.index lists 6 images and should list 7") as caught:
        listing.files(str(root))
    assert caught.value.kind == "setup_failed"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_without_records_is_refused(layout, tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(SystemExit, match=f"there is no {layout} file whose name begins with train"):
        records.write_indexes(layout, str(tmp_path), str(tmp_path))


def test_files_that_are_not_those_that_were_registered_are_refused(images, tmp_path):
    (tmp_path / "root").mkdir()
    given = ["--root", tmp_path / "root", "--source", images, "--layout", "image-folder", "--sha256", "0" * 64]
    with pytest.raises(SystemExit, match="holds other files than when it was registered"):
        prepare.main([str(word) for word in given])


@pytest.mark.parametrize(
    ("layout", "folders"),
    [("small-images", ("train_8x8", "valid_8x8")), ("pascal-voc", ("Annotations", "ImageSets", "JPEGImages"))],
)
def test_folders_that_were_registered_are_linked(tmp_path, layout, folders):
    for folder in (*folders, "notes"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        (tmp_path / "source" / folder / "1.png").write_bytes(b"")
    (tmp_path / "root").mkdir()
    digest = manifest.listing(str(tmp_path / "source"))["sha256"]
    given = ["--root", tmp_path / "root", "--source", tmp_path / "source", "--layout", layout]
    assert prepare.main([str(word) for word in [*given, "--sha256", digest]]) == 0
    assert sorted(path.name for path in (tmp_path / "root").iterdir()) == list(folders)
    assert all((tmp_path / "root" / folder / "1.png").exists() for folder in folders)


def test_images_in_folders_that_were_registered_are_linked(images, tmp_path):
    (tmp_path / "root").mkdir()
    digest = manifest.listing(str(images))["sha256"]
    given = ["--root", tmp_path / "root", "--source", images, "--layout", "image-folder", "--sha256", digest]
    assert prepare.main([str(word) for word in given]) == 0
    assert len(listing.files(str(tmp_path / "root"))) == 7
