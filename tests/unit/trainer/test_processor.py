import pytest

from workers.trainer.base.processor import lacks_bfloat16


@pytest.mark.parametrize(
    ("lines", "lacks"),
    [
        ("processor : 0\nflags : fpu avx2 fma\n", True),
        ("processor : 0\nflags : fpu avx2 avx512f\n", False),
        ("processor : 0\nflags : fpu avx2 avx_ne_convert\n", False),
        ("processor : 0\nFeatures : fp asimd bf16\n", False),  # of another kind: nothing is known
        ("", False),
    ],
)
def test_a_processor_lacks_bfloat16_by_its_flags(tmp_path, lines, lacks):
    (tmp_path / "cpuinfo").write_text(lines)
    assert (lacks_bfloat16(str(tmp_path / "cpuinfo")) is not None) is lacks
    assert lacks_bfloat16(str(tmp_path / "missing")) is None
