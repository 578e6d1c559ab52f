"""What a node says of itself and the devices it offers."""

import json
import os

import pytest

from workers.node import inventory
from workers.node.inventory import Inventory
from workers.node.telemetry.nvml import Nvml


def test_sets_of_cores_are_written_as_the_kernel_writes_them():
    assert inventory.ranges([0, 1, 2, 3, 8]) == "0-3,8"
    assert inventory.ranges([5]) == "5"
    assert inventory.ranges([0, 2, 4]) == "0,2,4"


def test_cores_are_divided_evenly_and_the_rest_belongs_to_none():
    devices = inventory.cpu_devices([1000, 1001, 1002, 1003, 1004], 2, "a cpu", 10)
    assert [device["cores"] for device in devices] == [[1000, 1001], [1002, 1003]]
    assert [device["id"] for device in devices] == ["cpu:1000-1001", "cpu:1002-1003"]
    assert {device["memory_bytes"] for device in devices} == {5}


def test_no_cpu_device_can_be_asked_for():
    assert inventory.cpu_devices([0, 1], 0, "a cpu", 10) == []


def test_hyperthreads_of_one_core_stay_together(monkeypatch):
    monkeypatch.setattr(inventory, "_place", lambda core: (0, core % 2, core))
    devices = inventory.cpu_devices([0, 1, 2, 3], 2, "a cpu", 10)
    assert [device["cores"] for device in devices] == [[0, 2], [1, 3]]


def kept(cores, devices=1, threads_a_core=1, monkeypatch=None, setting=""):
    monkeypatch.setattr(inventory, "_place", lambda core: (0, core % (cores // threads_a_core), core))
    monkeypatch.setenv("TBD_HOUSEKEEPING_CORES", setting)
    return inventory.housekeeping_cores(range(cores), devices)


def test_of_four_cores_or_more_the_last_is_kept_for_tbd_and_of_fewer_none(monkeypatch):
    assert [kept(cores, monkeypatch=monkeypatch) for cores in (1, 2, 3, 4, 8)] == [[], [], [], [3], [7]]


def test_the_other_hyperthread_of_a_core_that_is_kept_is_kept_too_where_there_are_four_cores(monkeypatch):
    assert kept(8, threads_a_core=2, monkeypatch=monkeypatch) == [3, 7]
    assert kept(4, threads_a_core=2, monkeypatch=monkeypatch) == [3]


def test_none_is_kept_where_it_would_cost_the_devices_more_than_a_quarter(monkeypatch):
    assert kept(8, devices=2, monkeypatch=monkeypatch) == [7]
    assert kept(8, devices=4, monkeypatch=monkeypatch) == []
    assert kept(8, devices=8, monkeypatch=monkeypatch) == []
    assert kept(7, devices=3, monkeypatch=monkeypatch) == [6]  # it belonged to none of them anyway
    assert kept(4, devices=0, monkeypatch=monkeypatch) == [3]


def test_the_operator_says_how_many_are_kept(monkeypatch):
    assert kept(8, setting="0", monkeypatch=monkeypatch) == []
    assert kept(8, setting="3", monkeypatch=monkeypatch) == [5, 6, 7]
    for wrong in ("8", "-1", "one"):
        with pytest.raises(ValueError, match="TBD_HOUSEKEEPING_CORES"):
            kept(8, setting=wrong, monkeypatch=monkeypatch)


def test_devices_leave_the_cores_alone_that_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(inventory, "usable_cores", lambda: [1000, 1001, 1002, 1003])
    monkeypatch.delenv("TBD_CPU_DEVICES", raising=False)
    facts = Inventory("n1", tmp_path, Nvml()).read()
    assert facts["housekeeping_cores"] == [1003]
    assert facts["devices"][0]["cores"] == [1000, 1001, 1002]
    assert facts["cores"] == [1000, 1001, 1002, 1003]


@pytest.mark.parametrize("text", ["two", "-1", "100000", "1.5"])
def test_a_wrong_number_of_cpu_devices_is_refused_by_name(text, monkeypatch, tmp_path):
    monkeypatch.setenv("TBD_CPU_DEVICES", text)
    with pytest.raises(ValueError, match="TBD_CPU_DEVICES"):
        Inventory("n", tmp_path, Nvml())


def test_the_facts_of_this_node_are_json_and_null_facts_have_a_reason(monkeypatch, tmp_path):
    monkeypatch.delenv("TBD_CPU_DEVICES", raising=False)
    facts = Inventory("n1", tmp_path, Nvml()).read()
    json.dumps(facts)
    assert facts["node"] == "n1"
    assert facts["cores"] == sorted(os.sched_getaffinity(0))
    assert facts["devices"][0]["cores"] == [one for one in facts["cores"] if one not in facts["housekeeping_cores"]]
    assert facts["memory_bytes"] > 0
    assert facts["disk_free_bytes"] > 0
    assert facts["attempts_folder"] == str(tmp_path)
    assert "system" in facts["interpreters"]
    for name in ("governor", "cpu_model"):
        assert facts[name] is not None or facts["unavailable"][name]
