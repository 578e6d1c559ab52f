"""Which cores and which memory belong to a GPU, or to a part of the cores."""

import platform
import subprocess
import sys

import pytest

from workers.node import children, locality
from workers.node.locality import memory_nodes, near_cores, parsed


def test_gpus_of_one_numa_node_divide_its_cores_evenly():
    affinities = {"a": range(4), "b": range(4), "c": range(4, 8), "d": range(4, 8)}
    assert near_cores(affinities, [0, 1, 2, 3, 4, 5, 6, 7]) == {"a": [0, 1], "b": [2, 3], "c": [4, 5], "d": [6, 7]}


def test_threads_of_one_core_stay_together_and_what_the_agent_may_not_use_is_nobodys():
    by_place = [0, 4, 1, 5, 2, 6]  # 4 is the other thread of 0; 3 and 7 are not the agent's
    assert near_cores({"a": range(8), "b": range(8)}, by_place) == {"a": [0, 1, 4], "b": [2, 5, 6]}


@pytest.mark.parametrize("other", [None, (), (2, 3, 4), (9,)])
def test_where_the_driver_does_not_tell_them_apart_all_cores_are_divided(other):
    assert near_cores({"a": (0, 1, 2), "b": other}, [0, 1, 2, 3]) == {"a": [0, 1], "b": [2, 3]}


def test_without_gpus_nothing_is_divided_and_with_few_cores_nobody_gets_one():
    assert near_cores({}, [0, 1]) == {}
    assert near_cores(dict.fromkeys("abc"), [0, 1]) == {"a": [], "b": [], "c": []}


def test_memory_is_near_the_cores_of_its_node(tmp_path):
    for number, cores in enumerate(("0-3,8-11", "4-7,12-15")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(cores + "\n")
    assert memory_nodes([1, 9], tmp_path) == [0]
    assert memory_nodes([1, 4], tmp_path) == [0, 1]
    assert parsed("0-3,8-11\n") == {0, 1, 2, 3, 8, 9, 10, 11}


def test_a_run_alone_on_its_node_has_all_cores_of_its_gpus_socket(tmp_path):
    for number, cores in enumerate(("0-3,8-11", "4-7,12-15")):
        (tmp_path / f"node{number}").mkdir()
        (tmp_path / f"node{number}" / "cpulist").write_text(cores + "\n")
    usable = range(15)  # the last one is tbd's
    assert locality.beside([4, 5], usable, tmp_path) == [4, 5, 6, 7, 12, 13, 14]
    assert locality.beside([3, 4], usable, tmp_path) == list(usable)  # GPUs of both
    assert locality.beside([], usable, tmp_path) == list(usable)
    (tmp_path / "node1" / "cpulist").unlink()
    assert locality.beside([4], usable, tmp_path) == list(usable)


def test_a_host_of_one_node_binds_nothing(tmp_path):
    (tmp_path / "node0").mkdir()
    (tmp_path / "node0" / "cpulist").write_text("0-3\n")
    assert memory_nodes([1], tmp_path) == []
    assert memory_nodes([1], tmp_path / "nothing") == []


POLICY = """
import ctypes, sys
mode, mask = ctypes.c_int(), (ctypes.c_ulong * 16)()
ctypes.CDLL(None).syscall(int(sys.argv[1]), ctypes.byref(mode), mask, 1024, 0, 0)
print(mode.value, mask[0])
"""
GET_MEMPOLICY = "239"  # on x86-64


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls have other numbers on other processors")
def test_a_child_and_its_own_have_their_memory_from_the_nodes_given():
    script = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {POLICY!r}, sys.argv[1]])"
    spawner = children.Spawner()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        bound = spawner.popen([sys.executable, "-c", script, GET_MEMPOLICY], memory_nodes=[0], **pipes)
        told, trouble = bound.communicate()
        assert told == b"2 1\n" or b"memory is not bound to NUMA nodes [0]: " in trouble
        free = spawner.popen([sys.executable, "-c", script, GET_MEMPOLICY], **pipes)
        assert free.communicate() == (b"0 0\n", b"")
    finally:
        spawner.close()
