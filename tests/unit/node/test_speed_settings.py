"""What moves the speed of a training, read from files like the kernel's."""

import json
from pathlib import Path

import pytest

from workers.node import speed_settings
from workers.node.speed_settings import cgroup_limits, of_machine, of_process


@pytest.fixture
def root(tmp_path):
    """A function that writes files of a kernel: path -> text; the folder that stands for ``/``."""

    def put(files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text + "\n")
        return tmp_path

    return put


def test_the_settings_of_this_machine_are_json():
    found = of_machine()
    json.dumps(found)
    assert found["transparent_hugepages"] in (None, "always", "madvise", "never")
    assert found["address_space_randomization"] in (None, "0", "1", "2")


def test_where_the_kernel_shows_nothing_nothing_is_claimed(tmp_path):
    found = of_machine(tmp_path)
    assert found.pop("preloaded") == []
    assert found.pop("cgroup") == {"cpu_cores": None, "memory_bytes": None}
    assert set(found.values()) == {None}
    told = of_process({}, tmp_path)
    assert told == {"environment": {}, "address_space_randomized": None, "huge_pages_allowed": None}


def test_each_setting_is_read_from_its_place(root):
    cpu = "sys/devices/system/cpu"
    found = of_machine(
        root(
            {
                "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
                "sys/kernel/mm/transparent_hugepage/defrag": "always defer [defer+madvise] madvise never",
                "proc/sys/vm/nr_hugepages": "512",
                "proc/sys/kernel/randomize_va_space": "2",
                "proc/sys/kernel/numa_balancing": "1",
                f"{cpu}/smt/control": "on",
                f"{cpu}/cpufreq/boost": "0",
                f"{cpu}/cpu0/cpufreq/energy_performance_preference": "balance_power",
                "etc/ld.so.preload": "/usr/lib/libjemalloc.so.2",
            }
        )
    )
    assert found == {
        "transparent_hugepages": "madvise",
        "transparent_hugepages_defrag": "defer+madvise",
        "reserved_huge_pages": 512,
        "address_space_randomization": "2",
        "smt": "on",
        "frequency_boost": False,
        "energy_preference": "balance_power",
        "numa_balancing": "1",
        "preloaded": ["/usr/lib/libjemalloc.so.2"],
        "cgroup": {"cpu_cores": None, "memory_bytes": None},
    }


@pytest.mark.parametrize(("text", "boost"), [("0", True), ("1", False)])
def test_intels_switch_says_the_opposite(root, text, boost):
    assert of_machine(root({"sys/devices/system/cpu/intel_pstate/no_turbo": text}))["frequency_boost"] is boost


def test_the_tightest_control_group_counts(root):
    limits = {
        "proc/self/cgroup": "0::/slice/box",
        "sys/fs/cgroup/slice/cpu.max": "150000 100000",
        "sys/fs/cgroup/slice/memory.max": "4096",
        "sys/fs/cgroup/slice/box/cpu.max": "max 100000",
        "sys/fs/cgroup/slice/box/memory.max": "max",
    }
    assert cgroup_limits(root(limits)) == {"cpu_cores": 1.5, "memory_bytes": 4096.0}


def test_control_groups_of_the_first_version_are_read_too(root):
    limits = {
        "proc/self/cgroup": "5:memory:/box\n4:cpuacct,cpu:/box",
        "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "8192",
    }
    assert cgroup_limits(root(limits)) == {"cpu_cores": 0.5, "memory_bytes": 8192.0}


def test_of_the_environment_only_what_moves_speed_is_told(root):
    given = {
        "GLIBC_TUNABLES": "a=1",
        "MALLOC_ARENA_MAX": "2",
        "HOME": "/root",
        "XLA_FLAGS": "-f",
        "AWS_SECRET": "s",
        "TF_VAR_password": "s",
    }
    found = of_process(given, root({"proc/self/personality": "00000000"}))["environment"]
    assert found == {"GLIBC_TUNABLES": "a=1", "MALLOC_ARENA_MAX": "2", "XLA_FLAGS": "-f"}


def test_files_that_nccl_reads_as_variables_are_kept(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert "nccl_files" not in of_process({}, tmp_path / "bare")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".nccl.conf").write_text("NCCL_P2P_DISABLE=1\n")
    found = of_process({}, root({"etc/nccl.conf": "NCCL_IB_HCA=mlx5_0"}))["nccl_files"]
    assert found == {"/etc/nccl.conf": "NCCL_IB_HCA=mlx5_0", "~/.nccl.conf": "NCCL_P2P_DISABLE=1"}


@pytest.mark.parametrize(("personality", "randomized"), [("00000000", True), ("00040000", False), ("00040008", False)])
def test_a_process_whose_addresses_are_not_randomised_says_so(root, personality, randomized):
    assert of_process({}, root({"proc/self/personality": personality}))["address_space_randomized"] is randomized


@pytest.mark.parametrize(("line", "allowed"), [("THP_enabled:\t1", True), ("THP_enabled:\t0", False)])
def test_a_process_that_may_have_no_huge_pages_says_so(root, line, allowed):
    status = f"Name:\tpython\n{line}\nThreads:\t1"
    assert of_process({}, root({"proc/self/status": status}))["huge_pages_allowed"] is allowed


def test_a_setting_without_brackets_is_the_word_itself(tmp_path):
    (tmp_path / "scaling_governor").write_text("performance\n")
    assert speed_settings.chosen(Path(tmp_path / "scaling_governor")) == "performance"
