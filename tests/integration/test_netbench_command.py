"""``tbd netbench`` through a real service: a table, rows in the database, exit codes."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service

pytestmark = pytest.mark.framework("pytorch")
QUICK = ("--topology", "1x2", "--library", "gloo", "--max-bytes", "64B", "--budget", "8")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, python_of: Callable[[str], str]) -> Iterator[Service]:
    python_of("pytorch")
    if psutil.cpu_count() < 2:
        pytest.skip("needs two cores")
    folder = tmp_path_factory.mktemp("netbench")
    named = os.environ.get("TBD_INTERPRETERS_DIR")
    more = {"TBD_CPU_DEVICES": "2"} | ({"TBD_INTERPRETERS_DIR": named} if named else {})
    service = Service(folder / "data", **environment(folder, **more)).start()
    try:
        yield service
    finally:
        assert service.stop() == 0


@pytest.fixture
def tbd(service: Service, tmp_path: Path) -> Tbd:
    return Tbd(tmp_path, service.url)


@pytest.mark.after_change
def test_it_prints_what_was_measured_and_stores_it(tbd: Tbd, service: Service) -> None:
    table = tbd("netbench", *QUICK).stdout
    assert "point to point" in table
    assert "all reduce" in table
    assert "64 B" in table
    rows = service.call("GET", "/api/v1/netbench?limit=500")["items"]
    assert {row["operation"] for row in rows} == {"point_to_point", "all_reduce"}
    assert {row["busy_cores"] for row in rows} == {False, True}
    sizes = {row["bytes"] for row in rows}
    assert sizes >= {4 << k for k in range(5)}  # and between them, where times say that segments meet
    assert (min(sizes), max(sizes)) == (4, 64)
    assert {(row["library"], row["topology"], row["device"], row["world_size"]) for row in rows} == {
        ("gloo", "1x2", "cpu", 2)
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--topology", "1x1"), "topology: 1x1 has one rank"),
        (("--topology", "two"), "topology"),
        (("--library", "smoke"), "library"),
        (("--max-bytes", "lots"), "is no size"),
        (("--fabric", "pigeons"), "fabric"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_exit_code_2(tbd: Tbd, words: tuple[str, ...], told: str) -> None:
    process = tbd.start("netbench", *words)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert told in err
