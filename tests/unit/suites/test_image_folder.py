"""Which image comes when, how it is cut, and what happens to folders and files that are not as they should be."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from suites.datasets.image_folder import listing
from suites.inputs import images
from workers.trainer.base.failure import TrainerError

FILES = [listing.Entry(f"{number}.JPEG", number % 3) for number in range(20)]


def first(count, seed=1, rank=0, world_size=1):
    return list(itertools.islice(listing.samples(FILES, seed, rank, world_size), count))


def test_every_epoch_shows_every_image_once_in_another_order():
    shown = [sample.entry for sample in first(40)]
    assert sorted(shown[:20]) == sorted(shown[20:]) == sorted(FILES)
    assert shown[:20] != shown[20:]


def test_the_order_follows_the_seed():
    assert first(30) == first(30)
    assert first(30) != first(30, seed=2)


def test_the_ranks_share_an_epoch_without_overlap():
    shares = [{sample.entry for sample in first(5, rank=rank, world_size=4)} for rank in range(4)]
    assert len(set().union(*shares)) == 20


def test_an_image_is_cut_anew_each_time_it_is_shown():
    draws = [sample.draw for sample in first(60)]
    assert len(set(draws)) == 60


@given(st.text(), st.integers(1, 2000), st.integers(1, 2000))
def test_a_cut_lies_within_its_image(draw, width, height):
    cut = listing.cut(draw, width, height)
    assert 0 <= cut.left <= cut.left + cut.width <= width
    assert 0 <= cut.top <= cut.top + cut.height <= height
    assert cut == listing.cut(draw, width, height)


def test_cuts_cover_8_to_100_percent_and_half_of_them_are_mirrored():
    cuts = [listing.cut(str(number), 400, 300) for number in range(2000)]
    areas = [cut.width * cut.height / (400 * 300) for cut in cuts]
    assert 0.07 < min(areas) < 0.1
    assert max(areas) > 0.9
    assert 0.45 < sum(cut.mirrored for cut in cuts) / 2000 < 0.55
    assert all(0.7 < cut.width / cut.height < 1.4 for cut in cuts)


def test_labels_count_the_sorted_classes(tmp_path):
    for name in ("train/n2/b.JPEG", "train/n1/a.jpg", "train/n1/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [(one.path.rpartition("/")[2], one.label) for one in listing.files(str(tmp_path))]
    assert found == [("a.jpg", 0), ("b.JPEG", 1)]


def test_a_folder_without_images_is_a_failed_set_up(tmp_path):
    (tmp_path / "train" / "n1").mkdir(parents=True)
    for root in (None, str(tmp_path), str(tmp_path / "nowhere")):
        with pytest.raises(TrainerError) as caught:
            listing.files(root)
        assert caught.value.kind == "setup_failed"


@pytest.mark.parametrize("progressive", [False, True])
def test_the_size_of_a_jpeg_is_read_from_its_header(tmp_path, progressive):
    data = io.BytesIO()
    Image.new("RGB", (37, 91)).save(data, "JPEG", progressive=progressive, exif=b"Exif\0\0" + b"x" * 500)
    (tmp_path / "a.JPEG").write_bytes(data.getvalue())
    assert listing.jpeg_size(listing.Entry(str(tmp_path / "a.JPEG"), 0)) == (37, 91)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\xff\xd8", b"\xff\xd8\xff\xe0\x00\x10JFIF"])
def test_a_file_that_is_no_jpeg_is_named(tmp_path, content):
    (tmp_path / "a.JPEG").write_bytes(content)
    with pytest.raises(TrainerError, match=r"a\.JPEG"):
        listing.jpeg_size(listing.Entry(str(tmp_path / "a.JPEG"), 0))


def test_synthetic_batches_are_random_and_follow_the_seed():
    one, again = (list(images.synthetic(2, 8, 10, (3, 0))) for _ in range(2))
    other = next(images.synthetic(2, 8, 10, (3, 1)))
    assert len(one) == images.POOL
    assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(one, again, strict=True))
    assert (one[0][0] != other[0]).all()
    assert (one[0][0] != 0).all()
    assert one[0][0].std() == pytest.approx(1.0, abs=0.1)


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_an_image_is_evaluated_by_a_square_from_its_middle(width, height):
    cut = listing.middle(width, height)
    assert cut.width == cut.height == max(1, min(width, height) * 7 // 8)
    assert abs((width - cut.width) - 2 * cut.left) <= 1
    assert abs((height - cut.height) - 2 * cut.top) <= 1
    assert not cut.mirrored
