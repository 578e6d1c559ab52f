"""Where a measurement comes from."""

import json

from workers.node import provenance


def test_provenance_is_json_with_a_pair_of_clocks():
    found = provenance.Provenance().read()
    json.dumps(found)
    assert set(found["clocks"]) == {"monotonic_s", "wall_s"}
    assert set(found["cgroup"]) == {"cpu_cores", "memory_bytes"}


def test_provenance_tells_what_a_training_inherits_and_not_what_is_kept_from_it(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("TBD_TOKEN", "secret")
    found = provenance.Provenance().read()["process"]
    assert found["environment"]["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert not {"LD_PRELOAD", "TBD_TOKEN"} & set(found["environment"])
