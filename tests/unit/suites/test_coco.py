"""Images with outlines in COCO's layout: what is read of them, what is refused, the batches that are made; and COCO's
average precision, against pycocotools' own numbers."""

import contextlib
import io
import itertools
import json

import numpy
import pytest
from PIL import Image
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from suites.datasets import checking
from suites.datasets.coco import index, layout, loading
from suites.datasets.pascal_voc.layout import Box
from suites.datasets.registered import prepare
from suites.inputs import segmented_images
from suites.quality import coco_precision as metric
from suites.quality import mean_average_precision
from tests.trainer_process import read_job
from workers.trainer.base import manifest
from workers.trainer.base.failure import TrainerError

SIZE = {"image_pixels": [32, 64], "anchor_sides": [8, 16, 24], "anchors": 32, "classes": 91}
WIDTH, HEIGHT = 60, 40
# A corner of the image, a triangle in its middle, and a crowd at its right edge.
CORNER = {"category_id": 3, "bbox": [0, 0, 20, 10], "segmentation": [[0, 0, 20, 0, 20, 10, 0, 10]]}
TRIANGLE = {"category_id": 90, "bbox": [20, 10, 20, 20], "segmentation": [[20, 10, 40, 30, 20, 30]]}
EDGE = {"size": [HEIGHT, WIDTH], "counts": [50 * HEIGHT, 10 * HEIGHT]}
CROWD = {"category_id": 3, "bbox": [50, 0, 10, 40], "segmentation": EDGE, "iscrowd": 1}


def write(root, objects, sizes=None, told=None, mode="RGB"):
    """Images with these objects, a list for each, to train on and to judge; ``sizes``: of images; ``told``: what else
    the file says."""
    sizes = sizes or [(WIDTH, HEIGHT)] * len(objects)
    images = [
        {"id": 7 * at, "file_name": f"{at}.jpg", "width": width, "height": height}
        for at, (width, height) in enumerate(sizes)
    ]
    annotations = [{"image_id": 7 * at, "iscrowd": 0, **one} for at, some in enumerate(objects) for one in some]
    annotations = [{"id": number, **one} for number, one in enumerate(annotations, 100)]
    categories = [{"id": kind, "name": str(kind)} for kind in (3, 90)]
    (root / "annotations").mkdir(exist_ok=True)
    for split in ("train2017", "val2017"):
        (root / split).mkdir(exist_ok=True)
        for one in images:
            Image.new(mode, (one["width"], one["height"])).save(root / split / one["file_name"])
        found = {"images": images, "annotations": annotations, "categories": categories, **(told or {})}
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(found))


@pytest.fixture
def root(tmp_path):
    sizes = [(WIDTH, HEIGHT), (HEIGHT, WIDTH), (WIDTH, HEIGHT)]
    write(tmp_path, [[CORNER, TRIANGLE, CROWD], [], [TRIANGLE]], sizes)
    index.write(str(tmp_path), str(tmp_path))
    return tmp_path


def a_job(root, count=2, **more):
    dataset = {"name": "it", "root": str(root), "loader": "coco"} if root else None
    return read_job("resnet_50", "pytorch", dataset=dataset, per_device_batch_size=count, **more)


def batches(job, steps):
    found = segmented_images.batches(job, 0, SIZE, "pytorch", lambda *arrays: arrays)
    return [arrays for arrays, _ in itertools.islice(found, steps)]


def test_classes_have_the_numbers_of_their_categories_and_masks_are_those_of_pycocotools(root):
    first, empty, _ = loading.trained(str(root))
    assert first.boxes[1:] == (Box(90, (20, 10, 40, 30), False), Box(3, (50, 0, 60, 40), True))
    assert (empty.width, empty.height, empty.boxes) == (HEIGHT, WIDTH, ())
    outlines = [masks.frPyObjects(one["segmentation"], HEIGHT, WIDTH) for one in (CORNER, TRIANGLE)]
    wanted = [
        *(masks.decode(masks.merge(one)) for one in outlines),
        masks.decode(masks.frPyObjects(EDGE, HEIGHT, WIDTH)),
    ]
    for runs, one in zip(first.outlines, wanted, strict=True):
        assert (loading.mask(runs, HEIGHT, WIDTH) == one).all()


def test_what_is_shown_has_a_mask_within_each_box_that_is_no_crowd_and_may_be_mirrored(root):
    image = loading.trained(str(root))[0]
    (plain, own), (mirrored, other) = (loading.shown(image, flag, (32, 64), 8) for flag in (False, True))
    assert plain.boxes == pytest.approx(numpy.array([[0, 0, 16, 8], [16, 8, 32, 24]]))
    assert mirrored.boxes[1] == pytest.approx([16, 8, 32, 24])
    assert own[0].all()
    triangle = numpy.tri(8)  # below the line from its left upper corner
    assert abs(own[1] - triangle).sum() <= 8
    assert (other == own[:, :, ::-1]).all()


def test_batches_hold_masks_beside_boxes_and_anchors_beyond_the_edges(root):
    fields = segmented_images.fields(SIZE)
    for arrays in batches(a_job(root, 1), 6):
        assert [array.ndim - 1 for array in arrays] == [len(field.shape) for field in fields]
        assert ((arrays[5].sum(axis=(2, 3)) > 0) == (arrays[3] > 0)).all()
    synthetic = batches(a_job(None, 4), 4)
    counts = numpy.concatenate([(arrays[3] > 0).sum(axis=1) for arrays in synthetic])
    assert 3 < counts.mean() < 12
    anchors = segmented_images._anchors(SIZE, (32, 64))
    learnt = numpy.concatenate([anchors[arrays[6][arrays[7] >= 0]] for arrays in synthetic])
    assert (learnt < 0).any()
    assert segmented_images.epoch_samples(a_job(root), SIZE) == 3


def one(**changed):
    return {**CORNER, **changed}


WRONG = [
    ([one(bbox=[9, 9, -4, 5])], {}, "annotation 100: a box of -4 x 5 pixels is inverted"),
    ([CORNER, one(bbox=[50, 5, 12, 5])], {}, "annotation 101: a box from 50, 5 to 62, 10 is outside of an image of 60"),
    ([one(bbox=[1, 2, 3])], {}, "annotation 100: a box has left, top, width and height"),
    ([one(bbox=[float("nan"), 1, 2, 3])], {}, "annotation 100: a box from nan, 1 to nan, 4 is outside"),
    ([one(category_id=4)], {}, "annotation 100: 4 is no category of this file"),
    ([one(image_id=3)], {}, "annotation 100: there is no image 3"),
    ([one(segmentation=[[1, 2, 3, 4]])], {}, "annotation 100: its outline is neither polygons nor runs of 60 x 40"),
    ([one(segmentation={**EDGE, "counts": [5]})], {}, "annotation 100: its outline is neither"),
    ([one(segmentation={**EDGE, "counts": "x~"})], {}, "annotation 100: its outline is neither"),
    ([CORNER], {"categories": [{"id": 91}]}, "categories have numbers from 1 to 90"),
    ([CORNER], {"sizes": [(1, 1)]}, "image 0: a side of 1 pixels; images of 16 to 4096 are read"),
    ([CORNER], {"sizes": [(10000, 16)]}, "image 0: a side of 10000 pixels"),
    ([CORNER], {"mode": "CMYK"}, "its colours are CMYK: RGB or grey can be read"),
]


@pytest.mark.parametrize(("objects", "told", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_what_cannot_be_trained_on_is_refused_by_its_file_and_annotation(tmp_path, objects, told, message):
    sizes, mode = told.pop("sizes", None), told.pop("mode", "RGB")
    write(tmp_path, [objects], sizes, told, mode)
    problem = checking.check("coco", str(tmp_path))["problems"][0]
    assert message in problem
    assert f"{tmp_path}/" in problem
    if mode == "RGB":
        with pytest.raises(SystemExit, match=r"instances_train2017\.json: ") as refused:
            index.write(str(tmp_path), str(tmp_path))
        assert str(refused.value) == problem


def test_files_that_are_missing_or_damaged_and_too_many_boxes_are_named(root):
    path = root / "annotations" / "instances_train2017.json"
    (root / "annotations" / "instances_train2014.json").write_text("{}")
    with pytest.raises(TrainerError, match=r"instances_train2014\.json and instances_train2017\.json: one"):
        layout.splits(str(root))
    (root / "annotations" / "instances_train2014.json").unlink()
    assert checking.check("coco", str(root))["splits"] == {"train": {"images": 3}, "val": {"images": 3}}
    (root / "train2017" / "2.jpg").unlink()
    with pytest.raises(TrainerError, match=r"image 14: there is no .*2\.jpg"):
        layout.images(str(path))
    path.write_text(path.read_text()[:-20])
    with pytest.raises(TrainerError, match=r"instances_train2017\.json: .*line 1"):
        layout.images(str(path))
    path.unlink()
    with pytest.raises(TrainerError, match="no such file"):
        layout.splits(str(root))
    with pytest.raises(TrainerError, match="cannot read the train images"):
        loading.trained(str(root / "annotations"))
    write(root, [[CORNER] * 101])
    index.write(str(root), str(root))
    with pytest.raises(TrainerError, match=r"0\.jpg has 101 boxes, and the model has places for 100"):
        batches(a_job(root), 1)


def test_a_text_of_runs_is_that_of_pycocotools():
    generator = numpy.random.RandomState(1)
    for part in (0.0, 0.01, 0.5, 1.0):
        some = numpy.asfortranarray(generator.uniform(0, 1, (37, 53)) < part, numpy.uint8)
        assert layout.lengths(masks.encode(some)["counts"].decode()) == index.runs_of(some).tolist()


def scene(generator, count=6):
    """Boxes with masks of two classes on an image, some of them crowds, and what was found: moved ones, some of another
    class, some equally likely."""
    wanted, told = [], []
    for _ in range(generator.randint(0, count)):
        left, top = generator.randint(0, WIDTH - 12), generator.randint(0, HEIGHT - 12)
        width, height = generator.randint(6, 13, 2)
        corners = left, top, min(WIDTH, left + width), min(HEIGHT, top + height)
        kind = int(generator.choice([3, 90]))
        wanted.append(Box(kind, tuple(map(float, corners)), bool(generator.randint(4) == 0)))
        for _ in range(generator.randint(0, 3)):
            moved = numpy.clip(numpy.array(corners) + generator.uniform(-3, 3, 4), 0, [WIDTH, HEIGHT] * 2)
            other = 93 - kind if generator.randint(5) == 0 else kind
            told.append(mean_average_precision.Found(other, round(generator.uniform(0.1, 1), 1), moved))
    return wanted, sorted(told, key=lambda one: -one.likely)


def ellipse(corners):
    y, x = numpy.mgrid[:HEIGHT, :WIDTH] + 0.5
    left, top, right, bottom = corners
    return (2 * (x - left) / (right - left) - 1) ** 2 + (2 * (y - top) / (bottom - top) - 1) ** 2 <= 1


@pytest.mark.parametrize("seed", range(4))
def test_the_precision_of_masks_and_of_boxes_is_that_of_pycocotools(seed):
    generator = numpy.random.RandomState(seed)
    truth, results, before = {"images": [], "annotations": [], "categories": [{"id": 3}, {"id": 90}]}, [], {}
    logits = numpy.full((28, 28), 4.0)
    for number in range(1, 25):
        wanted, told = scene(generator)
        truth["images"].append({"id": number, "width": WIDTH, "height": HEIGHT})
        runs = [index.runs_of(ellipse(box.corners)) for box in wanted]
        for box, one in zip(wanted, runs, strict=True):
            left, top, right, bottom = box.corners
            outline = {"size": [HEIGHT, WIDTH], "counts": one.tolist()}
            facts = {"id": len(truth["annotations"]) + 1, "image_id": number, "iscrowd": int(box.difficult)}
            facts |= {"category_id": box.kind, "bbox": [left, top, right - left, bottom - top]}
            truth["annotations"].append({**facts, "area": float(one[1::2].sum()), "segmentation": outline})
        image = layout.Outlined("", WIDTH, HEIGHT, tuple(wanted), tuple(runs))
        metric.judge(image, told, [logits] * len(told), before)
        for one in told:
            pasted = numpy.asfortranarray(metric.pasted_mask(logits, one.corners, HEIGHT, WIDTH), numpy.uint8)
            left, top, right, bottom = map(float, one.corners)
            found = {"image_id": number, "category_id": one.kind, "score": one.likely}
            results.append(
                {**found, "bbox": [left, top, right - left, bottom - top], "segmentation": masks.encode(pasted)}
            )
    for kind, name in (("segm", "masks"), ("bbox", "boxes")):
        precisions = metric.average_precisions(before[name])
        assert len(precisions) == 2
        assert numpy.mean(list(precisions.values())) == pytest.approx(theirs(truth, results, kind), abs=1e-9)


def theirs(truth, results, kind):
    with contextlib.redirect_stdout(io.StringIO()):
        known = COCO()
        known.dataset = json.loads(json.dumps(truth))
        known.createIndex()
        evaluation = COCOeval(known, known.loadRes([dict(one) for one in results]), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats[0]


def test_masks_that_share_just_as_much_as_is_asked_for_are_right():
    told, wanted = [numpy.arange(20) < 13], [numpy.ones(20, bool)]
    right, _ = metric.matched(metric.mask_shares(told, wanted, numpy.array([False])), numpy.array([False]))
    assert right[:, 0].tolist() == [True] * 4 + [False] * 6  # 0.5, 0.55, 0.6, 0.65


def test_a_mask_is_resized_over_its_box_and_cut_at_one_half():
    logits = numpy.where(numpy.arange(28) < 14, 9.0, -9.0) * numpy.ones((28, 1))
    pasted = metric.pasted_mask(logits, (-10.0, 4.0, 30.0, 12.0), HEIGHT, WIDTH)
    rows, columns = numpy.nonzero(pasted)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (4, 11, 0, 9)
    assert pasted.sum() == 80
    assert not metric.pasted_mask(logits, (70.0, 4.0, 80.0, 12.0), HEIGHT, WIDTH).any()


def test_a_registered_dataset_has_links_to_its_images_and_an_index(root, tmp_path_factory):
    made, digest = tmp_path_factory.mktemp("made"), manifest.listing(str(root))["sha256"]
    given = ["--root", made, "--source", root, "--layout", "coco", "--sha256", digest]
    assert prepare.main([str(word) for word in given]) == 0
    assert sorted(path.name for path in made.iterdir()) == ["index", "train2017", "val2017"]
    assert [len(image.boxes) for image in loading.judged(str(made))] == [3, 0, 1]
