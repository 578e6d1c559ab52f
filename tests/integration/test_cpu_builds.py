"""A host without a GPU never downloads a build with CUDA unasked: every layout of registries, as small real ones.

Each is a folder of wheels behind a web server. The wheels are made here, and pip is the one of a real environment.
"""

import functools
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from workers.node import interpreters
from workers.node.interpreters import InterpreterError, build, cpu_builds

pytestmark = pytest.mark.after_change

PYTHON = "{}.{}".format(*sys.version_info)
HERE = f"cp{PYTHON.replace('.', '')}-none-any"
ELSEWHERE = "cp399-none-any"
LARGE = 200_000

DEFINITION = f"""
name = "plain"
framework = "none"
packages = ["thing"]
python = "{PYTHON}"
[variants.cpu]
requirements = "requirements.txt"
download_bytes = 1
installed_bytes = 1
"""
BUILDS = """
[plain]
package = "thing"
cpu_index = "{}"
most_bytes = 100_000
cuda_download_bytes = 2_770_000_000
cuda_installed_bytes = 4_800_000_000
"""


def wheel(folder: Path, version: str, tag: str = HERE, needs: str = "", bytes_of: int = 0, name: str = "thing") -> None:
    """Put a wheel into the index at ``folder``, of so many bytes that cannot be packed."""
    place = folder / name.replace("_", "-")
    place.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    required = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(place / f"{name}-{version}-{tag}.whl", "w") as packed:
        packed.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        packed.writestr(f"{name}.dat", os.urandom(bytes_of))
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        packed.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        packed.writestr(f"{info}/RECORD", "")


class Registry(NamedTuple):
    """Two indexes: the one for CPUs, and that of pip's configuration. ``sent``: the wheels that were asked for."""

    cpus: Path
    pips: Path
    url: str
    sent: list[str]


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments, sent: list[str], **keys) -> None:
        self._sent = sent
        super().__init__(*arguments, **keys)

    def do_GET(self) -> None:
        if self.path.endswith("/nvidia-thing/"):
            time.sleep(0.3)  # so that pip, which has said what it collects, has been ended before it goes on
        super().do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        if self.path.endswith(".whl"):
            self._sent.append(self.path.rpartition("/")[2].replace("%2B", "+"))

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Empty indexes, which pip is configured with, and a definition that wants ``thing`` 1.0."""
    sent: list[str] = []
    root = tmp_path / "registry"
    for name in ("cpus", "pips"):
        (root / name).mkdir(parents=True)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, sent=sent, directory=str(root))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    own = tmp_path / "definitions" / "plain"
    own.mkdir(parents=True)
    (own / "interpreter.toml").write_text(DEFINITION)
    (own / "requirements.txt").write_text("thing==1.0\n")
    (own / "requirements-cuda.txt").write_text("thing==1.0\nnvidia_thing==3.0\n")
    (own / "proof.py").write_text("import thing\nprint(thing.VERSION)\n")
    (tmp_path / "builds.toml").write_text(BUILDS.format(url + "/cpus"))
    monkeypatch.setattr(cpu_builds, "BUILDS", tmp_path / "builds.toml")
    real = interpreters.definitions
    monkeypatch.setattr(interpreters, "definitions", lambda: real(tmp_path / "definitions"))
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "built"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", cpu_builds.INDEX_SETTING, cpu_builds.CONSENT_SETTING):
        monkeypatch.delenv(name, raising=False)
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nindex-url = {url}/pips\nno-cache-dir = true\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    yield Registry(root / "cpus", root / "pips", url, sent)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that all layouts share: what one has installed is removed before the next one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder


@pytest.fixture
def taken(registry: Registry, environment: Path):
    """A function: install what the definition wants, and return the version that it has become, and what was said."""
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check"]

    def install() -> tuple[str, list[str]]:
        said: list[str] = []
        wanted = interpreters.definitions()["plain"]
        found = cpu_builds.of("plain")
        assert found is not None
        build._install_for_cpus(wanted, found, pip, said.append)
        packages = subprocess.run([*pip, "freeze"], capture_output=True, text=True, check=True).stdout.split()
        build._check_build(wanted, packages)
        return packages[-1], said

    yield install
    subprocess.run([*pip, "uninstall", "-qy", "thing", "nvidia_thing"], capture_output=True, check=True)


def with_cuda(index: Path) -> None:
    """What PyPI has for x86: under the plain version the build that needs CUDA's packages."""
    wheel(index, "1.0", needs="nvidia_thing==3.0")
    wheel(index, "3.0", "py3-none-any", name="nvidia_thing", bytes_of=LARGE)


def test_the_index_for_cpus_comes_first_and_the_rest_is_taken_from_pips(registry: Registry) -> None:
    with_cuda(registry.pips)
    wheel(registry.cpus, "1.0+cpu")
    wheel(registry.cpus, "1.0+cpu", ELSEWHERE)
    assert interpreters.install("plain").ready
    assert interpreters.record("plain")["proof"] == "1.0+cpu"
    assert registry.sent == [f"thing-1.0+cpu-{HERE}.whl"]


def test_a_build_with_cuda_is_refused_before_its_download_with_its_size_and_the_ways_out(registry: Registry) -> None:
    with_cuda(registry.pips)
    wheel(registry.cpus, "1.0+cpu", ELSEWHERE)
    with pytest.raises(InterpreterError) as refused:
        interpreters.install("plain")
    told = str(refused.value)
    assert f"for Python {PYTHON} pip's indexes have thing 1.0 with CUDA (it comes with nvidia_thing==3.0)" in told
    assert "2.6 GiB to download and 4.5 GiB on disk" in told
    assert f"{registry.url}/cpus (TBD_PYTORCH_CPU_INDEX) has no thing 1.0 for Python {PYTHON}" in told
    assert "TBD_ALLOW_CUDA_BUILD=1" in told
    assert not any(file.startswith("nvidia") for file in registry.sent)
    assert not interpreters.resolve("plain").ready


def test_a_plain_version_in_pips_index_that_is_small_and_needs_no_cuda_is_taken(registry: Registry, taken) -> None:
    wheel(registry.pips, "1.0")
    assert taken()[0] == "thing==1.0"


def test_a_build_that_calls_itself_one_for_cpus_is_taken_before_one_that_pip_would_prefer(
    registry: Registry, taken
) -> None:
    wheel(registry.pips, "1.0+cu130", bytes_of=LARGE)
    wheel(registry.pips, "1.0+cpu")
    assert taken()[0] == "thing==1.0+cpu"


def test_pips_further_indexes_do_not_reach_into_the_index_for_cpus(registry: Registry, taken, monkeypatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", registry.url + "/pips")
    wheel(registry.pips, "1.0+cu130", bytes_of=LARGE)
    wheel(registry.cpus, "1.0")
    assert taken()[0] == "thing==1.0"
    assert registry.sent == [f"thing-1.0-{HERE}.whl"]


@pytest.mark.parametrize("name", ["1.0+cu130", "1.0"])
def test_a_wheel_with_cuda_inside_is_known_by_its_name_or_its_size(registry: Registry, taken, name: str) -> None:
    wheel(registry.pips, name, bytes_of=LARGE)
    with pytest.raises(InterpreterError, match=r"it is thing-1\.0\+cu130-|thing-1\.0-\S+ has 0 MB"):
        taken()


def test_who_agrees_to_it_gets_the_build_with_cuda_with_its_pins(registry: Registry, taken, monkeypatch) -> None:
    with_cuda(registry.pips)
    monkeypatch.setenv(cpu_builds.CONSENT_SETTING, "1")
    version, said = taken()
    assert version == "thing==1.0"
    assert "nvidia_thing-3.0-py3-none-any.whl" in registry.sent
    assert any("2.6 GiB to download and 4.5 GiB on disk if it is that with CUDA" in line for line in said)


def test_an_index_that_is_not_there_or_never_answers_holds_nothing_up(registry: Registry, taken, monkeypatch) -> None:
    wheel(registry.pips, "1.0", bytes_of=LARGE)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        monkeypatch.setattr(cpu_builds, "_BEGIN_S", "0.5")
        monkeypatch.setenv(cpu_builds.INDEX_SETTING, address)
        with pytest.raises(InterpreterError, match=r"\(TBD_PYTORCH_CPU_INDEX\) cannot be read: Read timed out"):
            taken()
    with pytest.raises(InterpreterError, match=r"\(TBD_PYTORCH_CPU_INDEX\) cannot be read: .*Connection refused"):
        taken()
    monkeypatch.setenv(cpu_builds.INDEX_SETTING, registry.url + "/nothing")
    with pytest.raises(InterpreterError, match="cannot be read: 404 Client Error"):
        taken()
    monkeypatch.setenv(cpu_builds.INDEX_SETTING, "none")
    with pytest.raises(InterpreterError, match="TBD_PYTORCH_CPU_INDEX is none"):
        taken()


def test_what_came_with_cuda_although_pip_said_nothing_is_not_ready(registry: Registry) -> None:
    wanted = interpreters.definitions()["plain"]
    with pytest.raises(InterpreterError, match=r"not ready: .*it comes with nvidia-thing==3\.0"):
        build._check_build(wanted, ["thing==1.0", "nvidia-thing==3.0"])
    build._check_build(wanted, ["thing==1.0+cpu", "other==3.0"])
