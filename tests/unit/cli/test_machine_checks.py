"""What the doctor says of a machine's settings: what would make it calmer or faster."""

from typing import Any

import pytest

from orchestrator.cli.machine import machine_checks
from orchestrator.cli.machine.findings import Finding

CALM: dict[str, Any] = {
    "cores": [0, 1, 2, 3],
    "governors": ["performance"],
    "frequency_boost": False,
    "energy_preference": "performance",
    "transparent_hugepages": "always",
    "address_space_randomization": "2",
    "smt": "off",
    "cgroup": {"cpu_cores": None, "memory_bytes": None},
    "preloaded": [],
    "preload_of_this_shell": None,
    "inherited": {"environment": {}, "address_space_randomized": True, "huge_pages_allowed": True},
    "active_s": 1000.0,
    "stolen_s": 1.0,
    "load": 0.1,
}


def found(**changes: Any) -> list[Finding]:
    return list(machine_checks.findings(CALM | changes))


def inherited(**changes: Any) -> dict[str, Any]:
    return {"inherited": CALM["inherited"] | changes}


def test_a_calm_machine_has_nothing_to_mind() -> None:
    assert {finding.level for finding in found()} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "check", "advice"),
    [
        ({"governors": ["powersave", "schedutil"]}, "CPU governor", "cpupower frequency-set -g performance"),
        ({"frequency_boost": True}, "frequency boost", "Calmer, and slower"),
        ({"energy_preference": "balance_power"}, "energy preference", "--epp performance"),
        ({"transparent_hugepages": "never"}, "huge pages", "echo madvise"),
        ({"transparent_hugepages": "madvise"}, "huge pages", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"),
        (inherited(huge_pages_allowed=False), "huge pages", "Faster"),
        ({"address_space_randomization": "0"}, "address randomisation", "kernel.randomize_va_space=2"),
        (inherited(address_space_randomized=False), "address randomisation", "setarch"),
        ({"smt": "on"}, "SMT", "smt/control"),
        ({"cgroup": {"cpu_cores": 1.5, "memory_bytes": None}}, "control group", "cpuset"),
        ({"preloaded": ["/lib/jemalloc.so"]}, "preloaded libraries", "/etc/ld.so.preload"),
        ({"stolen_s": 100.0}, "stolen time", "not shared"),
        ({"load": 2.0}, "load", "stop what else runs"),
    ],
)
def test_each_setting_that_disturbs_or_slows_is_named_with_what_to_do(
    changes: dict[str, Any], check: str, advice: str
) -> None:
    (minded,) = (finding for finding in found(**changes) if finding.level == "note")
    assert minded.check == check
    assert advice in minded.advice


def test_what_the_kernel_does_not_show_is_not_minded() -> None:
    unknown = dict.fromkeys(("frequency_boost", "energy_preference", "transparent_hugepages", "smt", "stolen_s"))
    dark = {"address_space_randomized": None, "huge_pages_allowed": None}
    shown = found(governors=[], address_space_randomization=None, **unknown, **inherited(**dark))
    assert {finding.level for finding in shown} == {"ok"}


def test_a_malloc_that_asks_for_huge_pages_is_told_and_not_minded() -> None:
    asking = inherited(environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
    shown = {finding.check: finding for finding in found(transparent_hugepages="madvise", **asking)}
    assert (shown["huge pages"].level, shown["huge pages"].found) == ("ok", "madvise, and malloc asks for them")
    assert "GLIBC_TUNABLES" in shown["inherited by trainings"].found


def test_a_quota_of_all_cores_is_none() -> None:
    assert "control group" not in {finding.check for finding in found(cgroup={"cpu_cores": 4.0, "memory_bytes": None})}


def test_this_machine_can_be_looked_at() -> None:
    checks = [finding.check for finding in machine_checks.machine()]
    assert {"CPU governor", "huge pages", "address randomisation", "load"} <= set(checks)
