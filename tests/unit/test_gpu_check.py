"""The arithmetic of the GPU checks, against scripted logs; and what they say where there is no GPU."""

import gzip
import json
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.gpu import check, fixtures, jobs, verdicts
from workers.trainer import protocol
from workers.trainer.base.job import job_of

ROOT = Path(__file__).resolve().parents[2]
CORES_PER_CYCLE, CLOCK = 33792.0, 1.5e9


def entry(t, kind, **data):
    return {"t": t, "wall": t, "kind": kind, "rank": 0, "data": data}


def reading(t, nvml=None, **values):
    told = [[metric, "device:GPU-a", value] for metric, value in values.items()]
    return entry(t, "reading", window_s=0.5, values=told, **({"nvml": nvml} if nvml else {}))


def product_log(pipe, rate, arithmetic="fp32", metric="fp32_pipe_ratio"):
    """Ten seconds of products from 100 on; before and after the device is idle."""
    repetition_s = 0.1
    timed = entry(
        110.0, "calibration", arithmetic=arithmetic, flops=rate * repetition_s, duration_s=[repetition_s] * 100
    )
    busy = {metric: pipe, "sm_clock_hz": CLOCK}
    idle = {metric: 0.0, "sm_clock_hz": 0.2e9}
    before = [reading(90.0 + 0.5 * k, **idle) for k in range(21)]
    during = [reading(100.5 + 0.5 * k, **busy) for k in range(20)]
    after = [reading(110.3 + 0.5 * k, **idle) for k in range(4)]
    return [*before, *during, timed, *after]


@pytest.mark.parametrize(("pipe", "ok"), [(0.90, True), (0.925, True), (0.94, False), (0.86, False)])
def test_a_pipe_is_held_against_the_operations_at_the_clock_that_was_read(pipe, ok):
    log = product_log(pipe, 0.9 * CORES_PER_CYCLE * CLOCK)
    found = verdicts.pipe(log, "fp32", "fp32_pipe_ratio", CORES_PER_CYCLE, verdicts.FP32_POINTS)
    assert found.ok is ok, found
    assert "counted 90.00 %" in found.told
    spared = verdicts.pipe(log, "fp32", "fp32_pipe_ratio", CORES_PER_CYCLE, verdicts.FP32_POINTS, spare=0.02)
    assert spared.ok is (ok or pipe == 0.94)


def test_a_pipe_that_may_not_be_read_is_not_judged_and_says_why():
    log = [entry(1.0, "reading", window_s=0.5, values=[], nvml={"GPU-a": {"fp32_pipe_ratio": "no_permission"}})]
    log += product_log(None, 1e12)
    found = verdicts.pipe(log, "fp32", "fp32_pipe_ratio", CORES_PER_CYCLE, verdicts.FP32_POINTS)
    assert (found.ok, found.told) == (None, "fp32_pipe_ratio: no_permission")


def test_counted_operations_may_be_off_by_a_percent():
    assert verdicts.operations(1e9, 1.009e9).ok
    assert verdicts.operations(1e9, 0.98e9).ok is False
    assert verdicts.operations(1e9, None).ok is None


def training_log(tensor):
    log = [entry(100.0 + k, "interval", phase="timed", n=8, duration_s=1.0) for k in range(1, 21)]
    return log + [reading(100.5 + 0.5 * k, tensor_pipe_ratio=tensor) for k in range(38)]


def test_the_tensor_pipes_of_an_fp32_training_have_to_be_idle():
    assert verdicts.idle_tensor_pipe(training_log(0.002)).ok
    assert verdicts.idle_tensor_pipe(training_log(0.02)).ok is False
    assert verdicts.idle_tensor_pipe(training_log(0.02), verdicts.ATTENTION_RATIO).ok
    assert verdicts.idle_tensor_pipe([]).ok is None


def test_a_rate_leaves_out_the_first_quarter():
    log = training_log(0.0)
    for slow in log[:5]:
        slow["data"]["duration_s"] = 10.0
    assert verdicts.steps_per_s(log) == pytest.approx(8.0)
    assert verdicts.steps_per_s([]) is None


@pytest.mark.parametrize(("slower", "ok"), [(1.004, True), (1.006, False)])
def test_a_run_is_warm_where_it_ends_as_fast_as_it_began(slower, ok):
    log = training_log(0.0)
    for late in log[18:20]:
        late["data"]["duration_s"] = slower
    assert verdicts.warmth(log).ok is ok
    assert verdicts.warmth(log[:5]).ok is None


def memory_log(outside=300):
    """The first step searches for algorithms; the peak counts from the second on."""
    items = [[0, 1000, 0], [3, 9500, 1], [3, -9500, 1], [3, 500, 2], [3, -300, 2]]
    last = {"outside_bytes": outside, "peak_bytes": 1500, "peak_from_step": 2}
    return [
        entry(190.0, "process_started", process="worker0:memory", pid=1),
        entry(200.0, "allocations", items=items[:2], last=False),
        entry(201.0, "allocations", items=items[2:], last=True, **last),
        entry(201.0, "profiled", profile="memory"),
        entry(202.0, "process_exited", process="worker0:memory"),
    ]


def polled(*amounts, before=0):
    """Before the job, while it trains (more than later), and while the memory is profiled."""
    return [(100.0, before), (150.0, 9000), *((191.0 + k, amount) for k, amount in enumerate(amounts)), (203.0, 0)]


@pytest.mark.parametrize(("process", "ok"), [(1800, True), (1815, True), (1850, False), (1700, False)])
def test_classes_at_the_peak_and_what_lies_outside_are_the_driver_s_figure(process, ok):
    assert verdicts.memory(memory_log(), polled(0, 9000, process, process)).ok is ok


def test_memory_that_the_driver_does_not_show_is_not_judged():
    assert verdicts.memory(memory_log(), polled(0, None)).ok is None
    assert verdicts.memory(memory_log(outside=None), polled(1800)).ok is None
    assert "other processes" in verdicts.memory(memory_log(), polled(1800, before=5)).told
    assert verdicts.memory([], polled(1800)).ok is False  # it was asked for


def test_the_poller_asks_from_before_the_job_until_after_it():
    class Driver:
        def processes_memory(self, uuid):
            return len(uuid)

    with check.Poller(Driver(), "GPU-a") as poller:
        pass
    assert [amount for _, amount in poller.polled] == [5] * len(poller.polled)
    assert poller.polled


def kernel_log(active=0.8, **events):
    log = [entry(1.0, "kernels", steps=3, elapsed_s=1.0, active_s=active, method="m", rows=[["gemm", 3, 0.8]])]
    return log + [entry(2.0, kind, **data) for kind, data in events.items()]


def test_a_kernel_table_is_counted_where_there_is_ncu():
    counters = {"tool": "ncu", "steps": 1, "kernels": [["gemm", {}]]}
    assert verdicts.kernels(kernel_log(counters=counters), "/usr/bin/ncu").ok
    assert verdicts.kernels(kernel_log(), None).ok is None
    failed = {"profile": "counters", "failure": {"message": "ERR_NVGPUCTRPERM"}}
    found = verdicts.kernels(kernel_log(profile_failed=failed), "/usr/bin/ncu")
    assert found.ok is False
    assert "ERR_NVGPUCTRPERM" in found.told
    assert verdicts.kernels(kernel_log(active=1.2), None).ok is False
    assert verdicts.kernels([], None).ok is False


def test_every_model_that_pytorch_trains_is_checked():
    facts = {path.parent.name: jobs.toml(path) for path in (ROOT / "suites" / "models").glob("*/model.toml")}
    trained = [name for name, told in facts.items() if "pytorch" in told["frameworks"] and "measures" not in told]
    assert fixtures.models() == sorted(trained)
    assert "resnet_50" in trained


def test_what_is_run_and_what_is_announced_are_the_same_slices():
    assert list(check.SLICES) == fixtures.slices()


def test_pairs_are_judged_by_the_lower_bound():
    assert verdicts.pairs("p", [(99.9, 100.0), (100.0, 100.0), (99.95, 100.0)]).ok
    # the mean is the same, but three pairs that vary so much show nothing
    assert verdicts.pairs("p", [(97.0, 100.0), (103.0, 100.0), (99.85, 100.0)]).ok is False
    assert verdicts.pairs("p", [(100.0, 100.0)]).ok is None


def test_restarts_are_judged_by_their_standard_deviation_over_the_mean():
    assert verdicts.restarts([100.0 + 0.01 * k for k in range(10)]).ok
    assert verdicts.restarts([100.0 + 0.2 * k for k in range(10)]).ok is False
    assert verdicts.restarts([100.0] * 9).ok is None


def test_t_is_student_s():
    from scipy import stats

    assert verdicts.T95[1:] == [pytest.approx(stats.t.ppf(0.975, n), abs=6e-4) for n in range(1, len(verdicts.T95))]


def test_jobs_follow_the_protocol_and_know_the_device_s_peak():
    device = {"id": "GPU-a", "kind": "cuda", "name": "NVIDIA H200", "cores": [], "memory_bytes": None}
    made = protocol.check_job(jobs.job("resnet_50", device, "x", seconds=5.0, per_device_batch_size=64))
    assert job_of(made).plan.per_device_batch_size == 64
    assert made["stopping"]["max_duration_s"] == 5.0
    assert made["peaks"][0]["data_sheet"]["flops_per_s"] == 67e12
    assert made["model"]["module"] == "suites.models.resnet_50"
    assert jobs.sheet("a cpu") is None


def test_a_failing_slice_is_not_ok_and_the_others_are_judged(tmp_path, monkeypatch, capsys):
    def breaks(bench):
        raise RuntimeError("training: out of memory")

    fine = verdicts.Verdict("fine", True, "1 of 1")
    monkeypatch.setattr(check, "SLICES", {"one": breaks, "two": lambda bench: [fine]})
    bench = check.Bench({"name": "a device", "kind": "cuda"}, tmp_path, False)
    assert check.judge(bench, ["one", "two"], {"torch": "2"}) == 1
    printed = capsys.readouterr().out
    assert "NOT OK     one: failed: training: out of memory" in printed
    assert "ok         fine: 1 of 1" in printed
    kept = json.loads((tmp_path / "verdicts-one-two.json").read_text())
    assert kept["versions"] == {"torch": "2"}
    assert [verdict["ok"] for verdict in kept["verdicts"]] == [False, True]


def test_without_a_gpu_it_says_so_and_exits_with_77(tmp_path, monkeypatch):
    monkeypatch.setattr("workers.node.telemetry.nvml._driver", lambda: None)
    assert check.main(["--out", str(tmp_path / "logs")]) == check.NO_GPU == 77


def test_a_slice_that_does_not_exist_is_a_usage_error(tmp_path):
    command = [sys.executable, "-m", "tests.gpu.check", "everything", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no slice everything" in done.stderr


def kineto_file(folder, *kernels, marked=True):
    events = [{"ph": "X", "cat": "user_annotation", "name": "tbd.whole", "ts": 100.0, "dur": 1000.0}] * marked
    events += [{"ph": "X", "cat": "kernel", "name": "k", "ts": ts, "dur": dur} for ts, dur in kernels]
    path = folder / "kineto.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_a_trace_is_held_against_kineto_s_own_file(tmp_path):
    path = kineto_file(tmp_path, (200.0, 300.0), (400.0, 200.0), (2000.0, 5.0))
    assert verdicts.trace("fp32", {"kernels": 2, "active_s": 400e-6}, path).ok
    assert verdicts.trace("fp32", {"kernels": 2, "active_s": 500e-6}, path).ok is False
    assert verdicts.trace("fp32", {"kernels": 3, "active_s": 400e-6}, path).ok is False
    assert verdicts.trace("fp32", {"kernels": 0, "active_s": None}, path).ok is False
    assert verdicts.trace("fp32", {"kernels": 0, "active_s": None}, kineto_file(tmp_path)).ok is None
    assert verdicts.trace("fp32", {"kernels": 0, "active_s": None}, kineto_file(tmp_path, marked=False)).ok is False


def test_a_throughput_stands_beside_that_of_the_same_network_and_batch():
    log = [entry(1.0, "built", parameters=7), *training_log(0.0)]
    opened = entry(0.0, "log_opened", job={"plan": {"per_device_batch_size": 32}})

    def ok(per_s, parameters=7, log=log):
        return verdicts.beside("r", log, 64, {"samples_per_s": per_s, "parameters": parameters, "of": "t"}, 0.95).ok

    assert (ok(512.0 / 0.96), ok(512.0 / 0.94)) == (True, False)
    assert ok(512.0, parameters=8) is False
    assert ok(512.0, log=[opened, *log]) is False
    assert ok(512.0, log=[]) is False
    assert verdicts.beside("r", log, 64, {"of": "No module named 'timm'"}, 0.95).ok is None


def test_a_batch_that_does_not_fit_is_halved(tmp_path, monkeypatch):
    bench = check.Bench({"name": "a device", "kind": "cuda"}, tmp_path, False)
    tried = []

    def run(model, name, per_device_batch_size, **changes):
        tried.append(per_device_batch_size)
        if per_device_batch_size > 16:
            raise RuntimeError("x: failed: out_of_memory")
        return ["log"]

    monkeypatch.setattr(bench, "run", run)
    assert bench.train("x", 1.0) == ["log"]
    assert tried == [64, 32, 16]


def slices_left(folder, name, *told):
    found = [{"name": f"check {index}", "ok": ok, "told": words} for index, (ok, words) in enumerate(told)]
    device = {"name": "NVIDIA H100"} if found else {}
    kept = {"device": device, "versions": {"driver": "580.1"} if found else {}, "verdicts": found}
    (folder / f"verdicts-{name}.json").write_text(json.dumps(kept))


def test_what_is_left_behind_is_few_files_and_a_table(tmp_path):
    slices_left(tmp_path, "restarts", (None, "9 of 10 restarts"))
    slices_left(tmp_path, "products", (True, "1 | 2"), (False, "bad\nnews"))
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("{}\n" * 100)
    for number in range(9):
        (tmp_path / f"kineto-{number}.json").write_text("{}")
    (tmp_path / "nvml.json").write_text("{}")
    left = fixtures.gather(tmp_path)
    files = sorted(path.name for path in (tmp_path / fixtures.FOLDER).iterdir())
    assert len(files) == fixtures.MOST_FILES
    assert len(left) == 5
    assert all("there are 8 files" in words for words in left)
    with tarfile.open(tmp_path / fixtures.FOLDER / "logs.tar") as logs:
        assert sorted(logs.getnames()) == ["a.jsonl.gz", "b.jsonl.gz"]
        assert gzip.decompress(logs.extractfile("a.jsonl.gz").read()) == b"{}\n" * 100
    assert (tmp_path / fixtures.FOLDER / "table.md").read_text().splitlines() == [
        "NVIDIA H100; driver 580.1.",
        "",
        "| slice | check | verdict | figures |",
        "|---|---|---|---|",
        "| products | check 0 | ok | 1 \\| 2 |",
        "| products | check 1 | NOT OK | bad news |",
        "| restarts | check 0 | not judged | 9 of 10 restarts |",
    ]


def test_files_that_are_too_large_are_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(fixtures, "MOST_BYTES", 20_000)
    noise = random.Random(1).getrandbits(8 * 30_000).to_bytes(30_000, "big")
    (tmp_path / "large.jsonl").write_bytes(noise)
    (tmp_path / "small.jsonl").write_bytes(noise[:3000])
    (tmp_path / "ncu-product.csv").write_bytes(noise)
    left = fixtures.gather(tmp_path)
    assert [words.split()[0] for words in left] == ["large.jsonl", "ncu-product.csv"]
    files = list((tmp_path / fixtures.FOLDER).iterdir())
    assert all(path.stat().st_size <= 20_000 for path in files)


def test_a_slice_that_was_ended_is_not_ok_in_the_table(tmp_path):
    fixtures.write_ended(tmp_path, "kernels", 480.0)
    slices_left(tmp_path, "traces", (False, "Traceback " * 100 + "RuntimeError: no GPU"))
    fixtures.gather(tmp_path)
    table = (tmp_path / fixtures.FOLDER / "table.md").read_text()
    assert "| NOT OK | the slice was ended after 480 s |" in table
    assert "RuntimeError: no GPU |" in table
    assert max(map(len, table.splitlines())) < 400
