"""The check of a dataset's files: what it counts, and that it names what is wrong."""

import io
import json

import pytest
from PIL import Image

from suites.datasets import checking, record_writing


@pytest.fixture
def images(tmp_path):
    for number in range(10):
        for split in ("train", "val"):
            path = tmp_path / "images" / split / f"n{number % 2}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            data = io.BytesIO()
            Image.new("RGB", (64, 48), (number * 20, 1, 2)).save(data, "JPEG")
            path.write_bytes(data.getvalue())
    return tmp_path / "images"


def test_whole_images_are_counted(images, capsys):
    assert checking.main(["image-folder", str(images)]) == 0
    found = json.loads(capsys.readouterr().out)
    counted = {"images": 10, "classes": 2}
    assert found == {"splits": {"train": counted, "val": counted}, "read": "every file", "problems": []}


def test_small_images_are_counted_and_those_that_do_not_fit_are_named(tmp_path):
    for split, side in (("train", 8), ("train", 9), ("valid", 8)):
        (tmp_path / f"{split}_8x8").mkdir(exist_ok=True)
        Image.new("L", (side, 8)).save(tmp_path / f"{split}_8x8" / f"{side}.png")
    found = checking.check("small-images", str(tmp_path))
    assert found["splits"] == {"train": {"images": 2}, "valid": {"images": 1}}
    (problem,) = found["problems"]
    assert problem.startswith(f"cannot read the image {tmp_path / 'train_8x8' / '9.png'}: it is 9 x 8 pixels")


def test_an_image_that_is_cut_off_is_named(images, capsys):
    broken = images / "train" / "n1" / "3.JPEG"
    broken.write_bytes(broken.read_bytes()[:-100])
    assert checking.main(["image-folder", str(images)]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem.startswith(f"{broken}: ")


def test_a_sample_is_stated(images):
    assert checking.check("image-folder", str(images), 3)["read"] == "every name, and 3 images of each split"


@pytest.mark.parametrize("layout", ["tfrecord", "recordio"])
def test_records_are_counted_and_a_damaged_one_is_named(images, layout, tmp_path):
    (tmp_path / "records").mkdir()
    record_writing.pack(layout, str(images), str(tmp_path / "records"), 2)
    found = checking.check(layout, str(tmp_path / "records"))
    assert found["splits"]["train"] == {"images": 10, "classes": 2}
    assert found["problems"] == []
    path = sorted(path for path in (tmp_path / "records").iterdir() if path.suffix != ".idx")[0]
    path.write_bytes(path.read_bytes()[:-9])
    (problem,) = checking.check(layout, str(tmp_path / "records"))["problems"]
    assert str(path) in problem


@pytest.mark.parametrize(
    ("layout", "file", "content", "what"),
    [
        ("text", "train.txt", "a text\n\nanother\n", {"documents": 2}),
        ("wikipedia", "AA/wiki_00", '<doc id="1">\nA\n\ntext\n</doc>\n', {"articles": 1}),
        ("squad", "train-v1.1.json", '{"data": []}', None),
        ("parallel-text", "train.en", "a\n", None),
    ],
)
def test_texts_are_counted_or_what_is_wrong_is_named(tmp_path, layout, file, content, what):
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    found = checking.check(layout, str(tmp_path))
    if what:
        assert found == {"splits": {"train": what}, "read": "every file", "problems": []}
    else:
        (problem,) = found["problems"]
        assert str(tmp_path) in problem


def test_a_word_list_without_the_other_is_named(tmp_path):
    for name in ("train.en", "train.vi", "vocab.en"):
        (tmp_path / name).write_text("<unk>\n<s>\n</s>\na\n")
    (problem,) = checking.check("parallel-text", str(tmp_path))["problems"]
    assert problem.startswith(f"{tmp_path / 'vocab.vi'}: ")


@pytest.mark.parametrize(
    "layout",
    ["image-folder", "tfrecord", "text", "wikipedia", "squad", "parallel-text", "librispeech", "small-images"],
)
def test_a_folder_that_is_not_there_is_named(tmp_path, layout):
    (problem,) = checking.check(layout, str(tmp_path / "nowhere"))["problems"]
    assert "nowhere" in problem
