"""Images with boxes in Pascal VOC's layout: what is read of them, what is refused, and the batches that are made."""

import itertools
import struct

import numpy
import pytest
from PIL import Image

from suites.assemble import boxes
from suites.datasets import checking
from suites.datasets.pascal_voc import layout, loading
from suites.inputs import boxed_images
from tests.trainer_process import read_job
from workers.trainer.base.failure import TrainerError

SIZE = {"image_pixels": [48, 80], "anchor_sides": [12, 24, 36], "anchors": 32, "classes": 21}
OBJECT = """<object>
<name>{name}</name><difficult>{difficult}</difficult>
<bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox>
</object>
"""


def write(root, name, size=(60, 40), told=None, mode="RGB", declared=None, objects=((),)):
    """An image and its annotation; ``told``: the size in the annotation; ``declared``: that in the image's own head."""
    for folder in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    path = root / "JPEGImages" / f"{name}.jpg"
    Image.new(mode, size, 102 if mode == "L" else (102,) * len(mode)).save(path)
    if declared:
        data = path.read_bytes()
        at = data.index(b"\xff\xc0") + 5
        path.write_bytes(data[:at] + struct.pack(">HH", *declared[::-1]) + data[at + 4 :])
    given = [{"name": "cat", "difficult": 0, "box": (1, 11, 30, 40), **dict(one)} for one in objects]
    width, height = told or size
    head = f"<annotation>\n<size><width>{width}</width>\n<height>{height}</height></size>\n"
    text = head + "".join(OBJECT.format(**one) for one in given) + "</annotation>\n"
    (root / "Annotations" / f"{name}.xml").write_text(text)


@pytest.fixture
def root(tmp_path):
    names = ["a", "b", "c", "d"]
    for name in names:
        write(tmp_path, name, size=(60, 40) if name < "c" else (40, 60))
    write(tmp_path, "grey", mode="L")
    write(tmp_path, "empty", objects=())
    (tmp_path / "ImageSets/Main/trainval.txt").write_text("\n".join([*names, "grey", "empty"]) + "\n")
    (tmp_path / "ImageSets/Main/test.txt").write_text("c\na 1\n")
    return tmp_path


def a_job(root, count=2, **more):
    dataset = {"name": "it", "root": str(root), "loader": "pascal_voc"} if root else None
    return read_job("resnet_50", "pytorch", dataset=dataset, per_device_batch_size=count, **more)


def batches(job, steps, rank=0):
    found = boxed_images.batches(job, rank, SIZE, "pytorch", lambda *arrays: arrays)
    return [arrays for arrays, _ in itertools.islice(found, steps)]


def test_an_annotation_is_read_with_edges_counted_from_nothing(root):
    write(root, "two", objects=[{}, {"name": "tvmonitor", "difficult": 1, "box": (5, 6, 5, 6)}])
    found = layout.annotated(str(root), "two")
    assert (found.width, found.height) == (60, 40)
    assert found.boxes == (layout.Box(8, (0, 10, 30, 40), False), layout.Box(20, (4, 5, 5, 6), True))


def test_what_is_shown_is_scaled_into_its_room_and_may_be_mirrored_and_nothing_is_behind_its_end(root):
    image = layout.annotated(str(root), "a")
    plain, mirrored = (loading.shown(loading.Wanted(image, flag), (48, 80)) for flag in (False, True))
    assert plain.scale == pytest.approx(1.2)
    assert plain.extent.tolist() == [72, 48]
    assert plain.image.shape == (48, 80, 3)
    assert (plain.image[:, 72:] == 0).all()
    grey = (0.4 - numpy.array([0.485, 0.456, 0.406])) / [0.229, 0.224, 0.225]
    assert plain.image[40, 60] == pytest.approx(grey, abs=1e-6)
    assert plain.boxes == pytest.approx(numpy.array([[0, 12, 36, 48]]))
    assert mirrored.boxes == pytest.approx(numpy.array([[36, 12, 72, 48]]))
    upright = layout.annotated(str(root), "c")
    long = loading.shown(loading.Wanted(upright, False), (48, 50))
    assert long.image.shape == (50, 48, 3)  # no longer than there is room
    assert long.extent.tolist() == [33, 50]


def test_images_of_a_batch_are_alike_and_all_are_shown_in_the_order_of_the_seed(root):
    found = batches(a_job(root), 6)
    shapes = {arrays[0].shape[1:] for arrays in found}
    assert shapes == {(48, 80, 3), (80, 48, 3)}
    again, other = batches(a_job(root), 6), batches(a_job(root, seed=2), 6)
    assert all((one == two).all() for one, two in zip(found[5], again[5], strict=True))
    assert any(one[4].tobytes() != two[4].tobytes() for one, two in zip(found, other, strict=True))
    counts = {int((arrays[3] > 0).sum(axis=1)[row]) for arrays in found for row in range(2)}
    assert counts == {0, 1}  # one has no box
    assert boxed_images.epoch_samples(a_job(root), SIZE) == 6


def test_synthetic_images_lie_and_are_upright_and_have_boxes_as_real_ones():
    found = batches(a_job(None, 8), 4)
    assert [arrays[0].shape for arrays in found] == [(8, 48, 80, 3)] * 3 + [(8, 80, 48, 3)]
    fields = boxed_images.fields(SIZE)
    assert [array.shape[1:] for array in found[0]] == [field.shape for field in fields]
    counts = numpy.concatenate([(arrays[3] > 0).sum(axis=1) for arrays in found])
    assert counts.min() == 1
    assert 1.5 < counts.mean() < 4
    for images, extents, corners, kinds, *_ in found:
        assert (corners[kinds > 0] >= 0).all()
        assert (corners[..., 2:] <= extents[:, None]).all()
        assert 0.9 < images[images != 0].std() < 1.1


WRONG = [
    ({"objects": [{"box": (30, 1, 20, 9)}]}, "line 6: a box from 30, 1 to 20, 9 is inverted"),
    ({"objects": [{}, {"box": (0, 1, 20, 9)}]}, "line 10: a box from 0, 1 to 20, 9 is outside of the image's 1 to 60"),
    ({"objects": [{"box": (1, 1, 61, 9)}]}, "line 6: a box from 1, 1 to 61, 9 is outside"),
    ({"objects": [{"box": (1, 1, "nan", 9)}]}, "line 6: a box from 1, 1 to nan, 9 is outside"),
    ({"objects": [{"box": (1, 1, "x", 9)}]}, "line 6: 'x' is no number"),
    ({"objects": [{"name": "unicorn"}]}, "line 5: 'unicorn' is no class of Pascal VOC: aeroplane, bicycle"),
    ({"size": (1, 1)}, "line 2: a side of 1 pixels; images of 16 to 4096 are read"),
    ({"told": (60, 10000)}, "line 3: a side of 10000 pixels"),
    ({"declared": (10000, 10000)}, "it is 10000 x 10000 pixels, and its annotation says 60 x 40"),
    ({"mode": "CMYK"}, "its colours are CMYK: RGB or grey can be read"),
]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("made", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_cannot_be_trained_on_is_refused_by_its_file_and_line(root, made, told):
    write(root, "b", **made)
    with pytest.raises(TrainerError, match=told) as error:
        batches(a_job(root), 4)
    assert f"{root}/" in str(error.value)
    assert "b.xml: line" in str(error.value) or "b.jpg" in str(error.value)
    (problem,) = checking.check("pascal-voc", str(root))["problems"]
    assert problem == str(error.value)


def test_files_that_are_missing_or_damaged_and_too_many_boxes_are_named(root):
    path = root / "Annotations" / "a.xml"
    whole = path.read_text()
    path.write_text(whole[:-20])
    with pytest.raises(TrainerError, match=r"a\.xml: line 7: unclosed token"):
        loading.trained(str(root))
    path.write_text(whole.replace("<width>60</width>", ""))
    with pytest.raises(TrainerError, match=r"a\.xml: line 1: <width> is missing"):
        loading.trained(str(root))
    write(root, "a", objects=[{}] * 65)
    with pytest.raises(TrainerError, match=r"a\.jpg has 65 boxes, and the model has places for 64"):
        batches(a_job(root), 1)
    (root / "JPEGImages" / "a.jpg").unlink()
    with pytest.raises(TrainerError, match=r"a\.xml: there is no .*a\.jpg"):
        loading.trained(str(root))
    for name in ("trainval", "test"):
        (root / "ImageSets/Main" / f"{name}.txt").write_text("")
        with pytest.raises(TrainerError, match=rf"{name}\.txt names no image"):
            loading.judged(str(root))
        (root / "ImageSets/Main" / f"{name}.txt").unlink()
    with pytest.raises(TrainerError, match=r"neither trainval\.txt nor train\.txt"):
        layout.splits(str(root))


def test_a_dataset_is_counted(root):
    found = checking.check("pascal-voc", str(root))
    assert found == {"splits": {"trainval": {"images": 6}, "test": {"images": 2}}, "read": "every file", "problems": []}


def plain_overlap(one, other):
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0, width) * max(0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return shared / (sum(areas) - shared) if sum(areas) > shared else 0


# No box, one, two equal ones, an empty one, one that is the image, one in a corner beyond all anchors.
BOXES = [[], [(10, 8, 30, 30)], [(10, 8, 30, 30)] * 2, [(9, 9, 9, 9)], [(0, 0, 72, 48)], [(70, 46, 72, 48)]]


@pytest.mark.parametrize("given", BOXES, ids=str)
def test_anchors_are_matched_as_by_a_plain_loop(given):
    anchors = boxes.anchors(3, 5, SIZE["anchor_sides"])
    corners = numpy.array(given, numpy.float32).reshape(-1, 4)
    made = boxed_images.anchors_learnt(anchors, numpy.array([72, 48]), corners, numpy.random.RandomState(1), 400)
    inside = [n for n, (x, y, right, end) in enumerate(anchors) if x >= 0 and y >= 0 and right <= 72 and end <= 48]
    shared = {n: [plain_overlap(anchors[n], box) for box in given] for n in inside}
    best = [max(shared[n][b] for n in inside) for b in range(len(given))]
    told = {
        n for n in inside for b in range(len(given)) if shared[n][b] >= 0.7 or (best[b] > 0 and shared[n][b] == best[b])
    }
    untold = {n for n in inside if n not in told and all(one < 0.3 for one in shared[n])}
    numbers, answers, shifts = made
    assert {int(n) for n, answer in zip(numbers, answers, strict=True) if answer == 1} == told
    assert {int(n) for n, answer in zip(numbers, answers, strict=True) if answer == 0} == untold
    assert len(told) + len(untold) == (answers >= 0).sum()
    back = boxes.moved(anchors[numbers[answers == 1]], shifts[answers == 1])
    wanted = [given[int(numpy.argmax(shared[int(n)]))] for n in numbers[answers == 1]]
    assert back == pytest.approx(numpy.array(wanted).reshape(-1, 4), abs=1e-4)


def test_half_of_the_anchors_at_most_tell_a_box():
    anchors, corners = boxes.anchors(30, 30, (32,)), numpy.array([[0, 0, 480, 480], [64, 64, 96, 96]], numpy.float32)
    crowd = numpy.concatenate([corners, anchors[1000:1040:2]])
    _, answers, _ = boxed_images.anchors_learnt(
        anchors, numpy.array([480, 480]), crowd, numpy.random.RandomState(1), 16
    )
    assert answers.tolist() == [1] * 8 + [0] * 8
