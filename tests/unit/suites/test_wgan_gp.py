"""WGAN-GP as data, against its source; its batches, and what its images are judged by."""

import itertools
import struct
import zlib

import numpy
import pytest
from PIL import Image

from suites.assemble import layers
from suites.datasets import small_images
from suites.inputs import noise_and_images
from suites.models.wgan_gp import network
from suites.quality import Examples, sliced_wasserstein
from tests.trainer_process import model_facts, read_job

FACTS = model_facts("wgan_gp")
TINY = FACTS["sizes"]["tiny"]


def test_generator_and_critic_are_those_of_the_source():
    """Its own figures, printed by its count of parameters: four blocks each, of a width of 64."""
    found = network.layers(FACTS["sizes"]["full"])
    parts = [[one for one in found if one.name.startswith(part)] for part in ("generator.", "critic.")]
    assert [layers.count(part) for part in parts] == [8540483, 7491841]
    assert [round(layers.flops(part) / 1e9, 2) for part in parts] == [3.57, 3.39]


@pytest.mark.parametrize("size", FACTS["sizes"].values(), ids=list(FACTS["sizes"]))
def test_the_facts_state_the_operations_of_a_step_by_the_formula(size):
    assert network.step_operations(size) == size["step_flops_per_sample"]


def a_job(root=None, count=4, **more):
    dataset = {"name": "it", "root": str(root), "loader": "small_images"} if root else None
    return read_job("wgan_gp", "pytorch", dataset=dataset, per_device_batch_size=count, **more)


def batches(job, rank=0, steps=1):
    found = noise_and_images.batches(job, rank, TINY, "pytorch", lambda *arrays: arrays)
    return list(itertools.islice(found, steps * (TINY["critic_updates"] + 1)))


def write(path, size=(64, 64), mode="RGB", form="PNG", declared=None):
    """``declared``: the size in the file's head, of an image that is too large to be made here."""
    path.parent.mkdir(exist_ok=True)
    Image.new(mode, size, 51 if mode == "L" else (51, 102, 0, 0)[: len(mode)]).save(path, form)
    if declared:
        data = bytearray(path.read_bytes())
        data[16:24] = struct.pack(">II", *declared)
        data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
        path.write_bytes(data)


@pytest.fixture
def root(tmp_path):
    for number in range(7):
        write(tmp_path / "train_64x64" / f"{number}.png")
        write(tmp_path / "valid_64x64" / f"{number}.png", mode="L")
    return tmp_path


def test_a_step_has_batches_for_the_critic_and_then_noise_alone(root):
    for found in (batches(a_job(ranks=2)), batches(a_job(root, ranks=2))):
        shapes = [[array.shape for array in arrays] for arrays, _ in found]
        assert shapes == [[(4, 8), (4, 32, 32, 3), (4,)]] * 5 + [[(4, 8)]]
        assert [work["images"] for _, work in found] == [4] * 5 + [0]
        assert sum(work["updates"] for _, work in found) == 3.0  # of six, the other half is the other rank's
        images, mixes = found[0][0][1:]
        assert abs(images).max() <= 1
        assert abs(mixes - 0.5).max() <= 0.5


@pytest.mark.parametrize("real", [False, True])
def test_what_is_drawn_follows_seed_and_rank_and_changes_from_batch_to_batch(root, real):
    made = [batches(a_job(root if real else None, seed=seed), rank) for seed, rank in ((1, 0), (1, 0), (2, 0), (1, 1))]
    noises = [[arrays[0] for arrays, _ in found] for found in made]
    assert all((one == other).all() for one, other in zip(noises[0], noises[1], strict=True))
    assert len({noise.tobytes() for found in noises[1:] for noise in found}) == (18 if real else 15)


def test_images_are_numbers_from_minus_one_to_one_and_grey_ones_have_three_equal_channels(root):
    image = small_images.image(str(root / "train_64x64" / "0.png"), 16)
    assert image.shape == (16, 16, 3)
    assert image[3, 5] == pytest.approx([2 * 51 / 255 - 1, 2 * 102 / 255 - 1, -1])
    assert small_images.judged(str(root), 64, 5) == pytest.approx(numpy.full((5, 64, 64, 3), 2 * 51 / 255 - 1))


WRONG = [
    ({"size": (1, 1)}, "it is 1 x 1 pixels, and its folder is for 64 x 64"),
    ({"declared": (10000, 10000)}, "it is 10000 x 10000 pixels"),
    ({"mode": "CMYK", "form": "JPEG"}, "its colours are CMYK: RGB or grey can be read"),
]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("made", "told"), WRONG)
def test_an_image_that_is_not_as_its_folder_says_is_refused_by_its_name(root, made, told):
    path = root / "train_64x64" / "3.png"
    write(path, **made)
    with pytest.raises(small_images.TrainerError, match=told) as error:
        batches(a_job(root), steps=2)
    assert str(path) in str(error.value)


def test_folders_that_are_missing_or_fit_no_size_are_named(root, tmp_path):
    with pytest.raises(small_images.TrainerError, match="64 pixels wide, which are no whole number of times the 24"):
        small_images.image(str(root / "train_64x64" / "0.png"), 24)
    for path in (root / "valid_64x64").iterdir():
        path.unlink()
    with pytest.raises(small_images.TrainerError, match=r"no image \*.png in .*valid_64x64"):
        small_images.judged(str(root), 64, 5)
    (root / "train_64x64").rename(root / "train")
    with pytest.raises(small_images.TrainerError, match="it needs one train_64x64"):
        small_images.files(str(root), "train")


def plain(made, real):
    """The distance by loops: along each direction the sorted numbers one by one."""
    count = real[0].size
    directions = numpy.random.RandomState(sliced_wasserstein.SEED).standard_normal((count, 128)).T
    found = []
    for direction in directions:
        length = sum(x * x for x in direction) ** 0.5
        sides = [sorted(sum(direction * one.reshape(-1)) / length for one in images) for images in (made, real)]
        found += [abs(one - other) for one, other in zip(*sides, strict=True)]
    return sum(found) / len(found)


def test_the_distance_is_that_of_a_plain_computation_whatever_the_batches_are(root):
    size, generator = {**TINY, "image_pixels": 4}, numpy.random.RandomState(1)
    weights = generator.standard_normal((TINY["noise"], 48))

    def compute(inputs):
        return (numpy.tanh(inputs[0] @ weights).reshape(-1, 4, 4, 3).astype(numpy.float32),)

    for number in range(7):
        pixels = generator.randint(0, 256, (64, 64, 3)).astype(numpy.uint8)
        Image.fromarray(pixels).save(root / "valid_64x64" / f"{number}.png")
    found = []
    for count in (2, 7, 9):
        examples = list(noise_and_images.evaluation(a_job(root, count), size))
        sums = [sliced_wasserstein.sums(compute(one.inputs), one, compute) for one in examples]
        assert sum(one["n"] for one in sums) == sum(len(one.inputs[0]) for one in examples) == 7
        found.append(sliced_wasserstein.value({key: sum(one[key] for one in sums) for key in ("n", "distance")}))
    (whole,) = noise_and_images.evaluation(a_job(root, 9), size)
    assert found == pytest.approx([plain(compute(whole.inputs)[0], whole.targets[0])] * 3)
    itself = Examples((), (whole.targets[0],))
    assert sliced_wasserstein.sums((whole.targets[0],), itself, compute) == {"n": 7.0, "distance": 0.0}


def test_an_epoch_has_as_many_images_for_each_of_a_steps_updates_of_the_critic(root):
    assert noise_and_images.epoch_samples(a_job(root), TINY) == 1  # of seven, for five updates
