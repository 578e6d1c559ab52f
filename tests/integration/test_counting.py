"""Operations counted in hardware: a process of its own under ``ncu``, for one rank with a GPU.

``ncu`` and the driver are scripted: a program of that name on the PATH, which starts what it is told to, and a library
with the driver's two marks, which writes down when they are set and wants a current context, as the driver does.
"""

import shutil
import subprocess
import sys
import uuid

import pytest

from tests.integration.node_attempts import NODE, a_job, carried_out, failure_of, kinds, of_kind
from workers.node.agent import Agent
from workers.node.telemetry import ncu
from workers.trainer import protocol

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the scripted driver")

DRIVER = """
#include <stdio.h>
static int say(const char *word) {
    FILE *file = fopen("%s", "a");
    fprintf(file, "%%s\\n", word);
    fclose(file);
    return 0;
}
static int initialised;
static __thread void *current;
int cuInit(unsigned flags) { initialised = 1; return flags; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = &initialised;
    return !initialised ? 3 : device ? 101 : 0;
}
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuProfilerStart(void) { return %d ? %d : current ? say("start") : 201; }
int cuProfilerStop(void) { return current ? say("stop") : 201; }
"""

TOOL = """\
#!{python}
import os, subprocess, sys
FOLDER, MODE = {folder!r}, {mode!r}
if sys.argv[1:] == ["--query-metrics"]:
    print("sm__ops_path_tensor_src_tf32_dst_fp32  Counter")
    sys.exit()
where = sys.argv.index("--log-file")
log, command = sys.argv[where + 1], sys.argv[where + 2 :]
metrics = sys.argv[sys.argv.index("--metrics") + 1].split(",")
environment = dict(os.environ, LD_LIBRARY_PATH=FOLDER)
status = subprocess.run(command, env=environment).returncode
with open(log, "w") as file:
    if MODE == "no permission":
        print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters", file=file)
    else:
        for number in range({kernels}):
            print('==PROF== Profiling "f" - %d: 0%%....100%% - 4 passes' % number, file=file)
        print(",".join('"%s"' % name for name in ["ID", "Kernel Name", *metrics]), file=file)
        print(",".join(['""', '""'] + ['"ns"' if "time" in name else '"inst"' for name in metrics]), file=file)
        for number in range({kernels}):
            print(",".join(['"%d"' % number, '"f(int)"'] + ['"1,000"'] * len(metrics)), file=file)
sys.exit(status)
"""
KERNELS = 250


@pytest.fixture
def scripted(tmp_path, monkeypatch):
    """A function that puts a scripted ncu and driver on the PATH; returns where the marks are written."""

    def make(mode="well"):
        folder, marks = tmp_path / "nvidia", tmp_path / "marks"
        folder.mkdir()
        refusal = 801 if mode == "refused" else 0  # CUDA_ERROR_NOT_SUPPORTED
        (folder / "driver.c").write_text(DRIVER % (marks, refusal, refusal))
        library = str(folder / "libcuda.so.1")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, str(folder / "driver.c")], check=True)
        tool = folder / "ncu"
        tool.write_text(TOOL.format(python=sys.executable, folder=str(folder), mode=mode, kernels=KERNELS))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        assert ncu.path() == str(tool)
        return marks

    return make


@pytest.fixture
def agent(tmp_path):
    found = Agent(tmp_path / NODE, NODE, fence_s=60)
    yield found
    found.close()


def on_gpus(ranks=1, **changes):
    options = {"step_time_s": 0.002, "parameters": 1000}
    job = a_job(
        ranks,
        **{"device": "cuda", "profile": ["kernels"], "options": options, "max_steps": 5, "warm_up_s": 0.0, **changes},
    )
    for process in job["processes"]:
        process["devices"] = [
            {"id": f"GPU-{uuid.uuid4()}", "kind": "cuda", "name": "a gpu", "cores": [], "memory_bytes": None}
        ]
    return job


def test_one_step_of_a_fresh_process_is_counted_between_the_marks(agent, scripted):
    marks = scripted()
    entries = carried_out(agent, on_gpus())
    assert failure_of(entries) is None
    assert not of_kind(entries, "profile_failed")
    assert [data["process"] for data in of_kind(entries, "process_started")] == ["worker0", "worker0:counters"]
    assert marks.read_text().split() == ["start", "stop"]
    events = of_kind(entries, "counters")
    assert len(events) == 3
    launches = [row for data in events for row in data["kernels"]]
    assert len(launches) == KERNELS
    name, metrics = launches[0]
    assert name == "f(int)"
    assert metrics[ncu.DURATION] == pytest.approx(1e-6)
    # of the tensor pipes only what the device has
    assert [metric for metric in metrics if "tensor" in metric] == ["sm__ops_path_tensor_src_tf32_dst_fp32.sum"]
    assert [data["profile"] for data in of_kind(entries, "profiled")] == ["kernels", "counters"]
    for entry in entries:
        protocol.check_event(entry)


def test_memory_is_profiled_after_it_by_processes_of_its_own(agent, scripted):
    scripted()
    entries = carried_out(agent, on_gpus(profile=["kernels", "memory"]))
    assert failure_of(entries) is None
    started = [data["process"] for data in of_kind(entries, "process_started")]
    assert started == ["worker0", "worker0:counters", "worker0:memory"]
    assert {"counters", "allocations"} <= set(kinds(entries))


def test_without_permission_the_run_stands_and_says_why_nothing_was_counted(agent, scripted):
    scripted("no permission")
    entries = carried_out(agent, on_gpus())
    assert failure_of(entries) is None
    (failed,) = of_kind(entries, "profile_failed")
    assert failed["profile"] == "counters"
    assert failed["failure"]["kind"] == "unsupported"
    assert "ERR_NVGPUCTRPERM" in failed["failure"]["message"]
    assert "counters" not in kinds(entries)


def test_a_driver_that_refuses_the_mark_is_named_with_its_answer(agent, scripted):
    scripted("refused")
    entries = carried_out(agent, on_gpus())
    assert failure_of(entries) is None
    (failed,) = of_kind(entries, "profile_failed")
    assert "the CUDA driver refuses cuProfilerStart: CUresult 801" in failed["failure"]["message"]
    assert "counters" not in kinds(entries)


def test_what_goes_wrong_in_the_counted_process_costs_the_counters_only(agent, scripted, monkeypatch):
    marks = scripted()
    shutil.copy(shutil.which("false"), marks.parent / "nvidia" / "ncu")
    entries = carried_out(agent, on_gpus())
    assert failure_of(entries) is None
    (failed,) = of_kind(entries, "profile_failed")
    assert failed["profile"] == "counters"
    assert len(of_kind(entries, "finished")) == 1


@pytest.mark.parametrize("changes", [{"ranks": 2}, {"profile": ["layers"]}], ids=["two-ranks", "not-asked"])
def test_several_ranks_and_runs_that_do_not_ask_are_not_counted(agent, scripted, changes):
    scripted()
    entries = carried_out(agent, on_gpus(**changes))
    assert failure_of(entries) is None
    assert not {"counters", "profile_failed"} & set(kinds(entries))


def test_nothing_on_cpu_devices_is_counted(agent, scripted):
    scripted()
    entries = carried_out(agent, a_job(profile=["kernels"], max_steps=5))
    assert failure_of(entries) is None
    assert "counters" not in kinds(entries)
