"""What a result is keyed by: which part of the fingerprint a fact belongs to, and what two fingerprints differ in."""

from typing import Any

from orchestrator.domain.asked.fingerprint import MACHINE_SETTINGS, differences, fingerprint
from tests.unit import builders

MACHINE = {
    "transparent_hugepages": "madvise",
    "transparent_hugepages_defrag": "madvise",
    "reserved_huge_pages": 0,
    "address_space_randomization": "2",
    "smt": "on",
    "frequency_boost": True,
    "energy_preference": "performance",
    "numa_balancing": "0",
    "preloaded": [],
    "cgroup": {"cpu_cores": None, "memory_bytes": 4096.0},
}
PROCESS: dict[str, Any] = {"environment": {}, "address_space_randomized": True, "huge_pages_allowed": True}


def taken(*provenances: dict[str, Any]) -> dict[str, Any]:
    """The fingerprint of a run on as many nodes."""
    inventory = {"hostname": "h", "cores": [0, 1], "governor": "performance"}
    nodes = {f"n{i}": {"inventory": inventory, "provenance": one} for i, one in enumerate(provenances)}
    return fingerprint(builders.plan(), {"nodes": nodes})


def test_every_setting_of_the_machine_is_in_the_rig_and_moves_its_key_alone() -> None:
    assert set(MACHINE) == set(MACHINE_SETTINGS)
    before = taken({**MACHINE, "process": PROCESS})
    for name in MACHINE_SETTINGS:
        after = taken({**MACHINE, name: ["another"], "process": PROCESS})
        assert after["rig"]["nodes"]["n0"][name] == ["another"]
        assert after["rig_key"] != before["rig_key"]
        assert (after["subject_key"], after["workload_key"]) == (before["subject_key"], before["workload_key"])


def test_what_a_training_inherits_is_in_the_subject_and_moves_its_key_alone() -> None:
    before = taken({**MACHINE, "process": PROCESS})
    after = taken({**MACHINE, "process": PROCESS | {"environment": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}}})
    assert after["subject"]["inherited"]["environment"] == {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    assert after["subject_key"] != before["subject_key"]
    assert (after["rig_key"], after["workload_key"]) == (before["rig_key"], before["workload_key"])


def test_nodes_that_do_not_hand_on_the_same_are_told_apart() -> None:
    other = PROCESS | {"environment": {"MALLOC_ARENA_MAX": "1"}}
    assert taken({"process": PROCESS}, {"process": PROCESS})["subject"]["inherited"] == PROCESS
    assert taken({"process": PROCESS}, {"process": other})["subject"]["inherited"] == {"n0": PROCESS, "n1": other}


def test_a_log_of_before_these_settings_were_recorded_has_a_fingerprint_without_them() -> None:
    old = taken({"commit": "c0ffee", "dirty": False})
    assert "inherited" not in old["subject"]
    assert not set(MACHINE_SETTINGS) & set(old["rig"]["nodes"]["n0"])
    assert old["subject"]["code_commits"] == ["c0ffee"]


def test_code_of_unknown_commit_is_called_unknown() -> None:
    assert taken({"commit": None})["subject"]["code_commits"] == ["unknown"]


def test_differences_lead_to_the_very_setting_that_changed() -> None:
    before, after = (
        taken(MACHINE),
        taken(MACHINE | {"smt": "off", "cgroup": {"cpu_cores": 1.5, "memory_bytes": 4096.0}}),
    )
    found = list(differences(before["rig"], after["rig"]))
    assert found == [("nodes.n0.cgroup.cpu_cores", None, 1.5), ("nodes.n0.smt", "on", "off")]


def test_what_one_side_did_not_record_is_no_difference_but_a_library_that_one_side_lacks_is() -> None:
    assert list(differences(taken({})["rig"], taken(MACHINE)["rig"])) == []
    assert list(differences(taken({})["subject"], taken({"process": PROCESS})["subject"])) == []
    assert list(differences({"libraries": {"numpy": "2.4"}}, {"libraries": {}})) == [("libraries.numpy", "2.4", None)]
