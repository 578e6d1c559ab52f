"""Settings that move speed, as a person reads them."""

from orchestrator.reports.fingerprint import inherited_settings, machine_settings


def test_a_machine_reads_in_one_line_and_what_is_not_known_is_left_out() -> None:
    node = {
        "transparent_hugepages": "madvise",
        "reserved_huge_pages": 0,
        "address_space_randomization": "2",
        "smt": "on",
        "frequency_boost": False,
        "preloaded": ["/lib/a.so", "/lib/b.so"],
        "cgroup": {"cpu_cores": 1.5, "memory_bytes": 2**31},
    }
    assert machine_settings(node) == (
        "huge pages madvise, address randomisation on, SMT on, frequency boost off, preloaded /lib/a.so, /lib/b.so, "
        "limit of the control group 1.50 cores and 2.00 GiB"
    )
    assert machine_settings({"cgroup": {"cpu_cores": None, "memory_bytes": None}}) == ""


def test_what_was_inherited_is_told_where_it_is_out_of_the_ordinary() -> None:
    plain = {"environment": {}, "address_space_randomized": True, "huge_pages_allowed": None}
    odd = {"environment": {"MALLOC_ARENA_MAX": "1"}, "address_space_randomized": False, "huge_pages_allowed": False}
    told = "MALLOC_ARENA_MAX=1, addresses not randomised, huge pages forbidden"
    assert inherited_settings({}) == inherited_settings({"inherited": plain}) == ""
    assert inherited_settings({"inherited": odd}) == told
    assert inherited_settings({"inherited": {"n0": plain, "n1": odd}}) == f"on n0: nothing; on n1: {told}"
