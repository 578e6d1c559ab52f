"""What ``tbd doctor`` says of the machine's settings: which would make it calmer, and which faster.

Each advice names what it costs or was seen to bring; where a figure stands, it was measured on one virtual machine with
two cores, with a small convolutional network in PyTorch, and is no promise for another.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.cli.machine.findings import Finding
from orchestrator.reports.numbers import memory, percent, plain

Facts = Mapping[str, Any]

# Judgements: shares of the cores' time since boot, or of the load, above which a person wants to know.
STOLEN_RATIO = 0.01
LOAD_RATIO = 0.10

HUGE_PAGES = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"


def machine() -> Iterator[Finding]:
    """All findings on this machine as it is now."""
    from workers.node import host_facts

    yield from findings(host_facts.of_machine())


def findings(facts: Facts) -> Iterator[Finding]:
    """The findings on ``facts`` (those that ``machine`` collects)."""
    for check in CHECKS:
        yield from check(facts)


def _governor(facts: Facts) -> Iterator[Finding]:
    found = ", ".join(facts["governors"])
    if not found:
        yield Finding("CPU governor", "ok", "not visible here (a virtual machine or a container)")
    elif found == "performance":
        yield Finding("CPU governor", "ok", found)
    else:
        advice = "Calmer and faster: cpupower frequency-set -g performance. Now clocks move with the load"
        yield Finding("CPU governor", "note", found, advice)


def _boost(facts: Facts) -> Iterator[Finding]:
    if facts["frequency_boost"]:
        advice = "Calmer, and slower: switch it off (/sys/devices/system/cpu/cpufreq/boost, or intel_pstate/no_turbo)"
        yield Finding("frequency boost", "note", "on: clocks move with heat and with what else runs", advice)
    preference = facts["energy_preference"]
    if preference not in (None, "performance", "default"):
        advice = "Calmer and faster: cpupower set --epp performance"
        yield Finding("energy preference", "note", preference, advice)


def _huge_pages(facts: Facts) -> Iterator[Finding]:
    chosen, inherited = facts["transparent_hugepages"], facts["inherited"]
    asked = "glibc.malloc.hugetlb=" in inherited["environment"].get("GLIBC_TUNABLES", "")
    if chosen is None:
        yield Finding("huge pages", "ok", "the kernel shows no such setting")
    elif chosen == "never" or inherited["huge_pages_allowed"] is False:
        found = chosen if chosen == "never" else "forbidden to this process and its children"
        advice = f"Faster: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and {HUGE_PAGES} for `tbd serve`"
        yield Finding("huge pages", "note", found, advice)
    elif chosen == "madvise" and not asked:
        advice = (
            f"Faster: start `tbd serve` with {HUGE_PAGES} (glibc 2.35 or newer): a training took 49 ms a step "
            "instead of 55. It becomes part of the subject, which tells results with it from those without"
        )
        yield Finding("huge pages", "note", "madvise, and malloc does not ask for them", advice)
    else:
        yield Finding("huge pages", "ok", f"{chosen}{', and malloc asks for them' if asked else ''}")


def _randomisation(facts: Facts) -> Iterator[Finding]:
    setting = facts["address_space_randomization"]
    off = setting == "0" or facts["inherited"]["address_space_randomized"] is False
    if not off:
        yield Finding("address randomisation", "ok", {"2": "on", "1": "partly on"}.get(setting, "not visible here"))
        return
    advice = (
        "Switch it on (sysctl kernel.randomize_va_space=2; no setarch -R). Without it processes differed by 9.7 % "
        "instead of 4.1, and a layout that is lucky is lucky in every run"
    )
    yield Finding("address randomisation", "note", "off", advice)


def _smt(facts: Facts) -> Iterator[Finding]:
    if facts["smt"] == "on":
        advice = (
            "Calmer: echo off > /sys/devices/system/cpu/smt/control. Whole cores stay together in a CPU device anyway"
        )
        yield Finding("SMT", "note", "on: two threads share what a core has", advice)
    elif facts["smt"] is not None:
        yield Finding("SMT", "ok", facts["smt"])


def _limits(facts: Facts) -> Iterator[Finding]:
    cores, amount = facts["cgroup"]["cpu_cores"], facts["cgroup"]["memory_bytes"]
    if cores is not None and cores < len(facts["cores"]):
        advice = (
            "Calmer: give whole cores (cpuset) instead of a quota, which stops all threads until its period is over"
        )
        yield Finding("control group", "note", f"{plain(cores, 3)} of {len(facts['cores'])} cores", advice)
    if amount is not None:
        yield Finding("control group", "ok", f"{memory(amount)} of memory")


def _loader(facts: Facts) -> Iterator[Finding]:
    if facts["preloaded"]:
        advice = "Every training loads them: empty /etc/ld.so.preload if that is not meant"
        yield Finding("preloaded libraries", "note", ", ".join(facts["preloaded"]), advice)
    if facts["preload_of_this_shell"]:
        advice = "Trainings do not inherit LD_PRELOAD: what they load is named in interpreter.toml, under [environment]"
        yield Finding("preloaded libraries", "ok", f"LD_PRELOAD={facts['preload_of_this_shell']}", advice)
    given = facts["inherited"]["environment"]
    if given:
        told = ", ".join(f"{name}={value}" for name, value in given.items())
        yield Finding("inherited by trainings", "ok", f"{told} (if the server is started from this shell)")


def _others(facts: Facts) -> Iterator[Finding]:
    stolen, active = facts["stolen_s"], facts["active_s"]
    ratio = stolen / (active + stolen) if stolen else 0.0
    if ratio > STOLEN_RATIO:
        found = f"the hypervisor took {percent(ratio)} of the busy time since boot"
        yield Finding("stolen time", "note", found, "Calmer: a machine, or cores of one, that is not shared")
    share = facts["load"] / len(facts["cores"])
    if share > LOAD_RATIO:
        found = f"{plain(facts['load'], 3)} in the last minute, on {len(facts['cores'])} cores"
        yield Finding("load", "note", found, "Calmer: stop what else runs here (top shows it)")
    else:
        yield Finding("load", "ok", f"{plain(facts['load'], 2)} in the last minute")


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _governor,
    _boost,
    _huge_pages,
    _randomisation,
    _smt,
    _limits,
    _loader,
    _others,
)
