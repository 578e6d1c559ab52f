"""Where a measurement comes from."""

import json

from workers.node import provenance


def test_provenance_is_json_with_a_pair_of_clocks():
    found = provenance.Provenance().read()
    json.dumps(found)
    assert set(found["clocks"]) == {"monotonic_s", "wall_s"}
    assert set(found["cgroup"]) == {"cpu_cores", "memory_bytes"}


def test_the_word_in_brackets_is_the_one_chosen(tmp_path):
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    assert provenance._chosen(tmp_path / "enabled") == "madvise"
    assert provenance._chosen(tmp_path / "missing") is None
