"""Recordings of GPUs through the parsers, against other arithmetic.

Those here are made up, in the forms of the real ones. Recordings of public projects are not part of this repository
(tests/gpu/samples/NOTES.md): TBD_TRACE_SAMPLES names a folder of one's own copies, ``*.json.gz`` of Kineto and
``*.xplane.pb``, and they are held too.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.gpu import kineto
from tests.trainer_process import ROOT

OWN = Path(os.environ["TBD_TRACE_SAMPLES"]) if os.environ.get("TBD_TRACE_SAMPLES") else None


def complete(cat, name, ts, dur, tid=7, **told):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": told}


# Two streams that overlap by 5 microseconds, a copy, an annotation of the device that is no work, in the categories of
# today and of 2021 ("Kernel", "Memcpy").
NEW = [
    complete("cpu_op", "aten::mm", 100.0, 50.0, tid=1, **{"External id": 3, "Input Dims": [[2, 3], [3, 4]]}),
    complete("cpu_op", "aten::_foreach_add_", 160.0, 5.0, tid=1, **{"External id": 4, "Input Dims": [[[2], [3]], []]}),
    complete("cuda_runtime", "cudaLaunchKernel", 120.0, 5.0, tid=1, **{"External id": 3}),
    complete("kernel", "gemm", 130.0, 20.0, **{"External id": 3, "stream": 7}),
    complete("kernel", "ncclDevKernel_AllReduce", 145.0, 15.5, tid=9, stream=9),
    complete("gpu_memcpy", "Memcpy HtoD", 200.0, 4.5, stream=7),
    complete("gpu_memset", "Memset", 210.0, 0.0, stream=7),
    complete("gpu_user_annotation", "tbd.part:forward", 130.0, 90.0, stream=7),
    complete("user_annotation", "tbd.whole", 90.0, 130.0, tid=1),
]
OLD = [{**event, "cat": {"kernel": "Kernel", "gpu_memcpy": "Memcpy"}.get(event["cat"], event["cat"])} for event in NEW]
FIGURES = kineto.Figures(4, 35e-6, 40e-6)


def written(path, events):
    path.write_text(json.dumps({"traceEvents": [*events, {"ph": "M", "name": "process_name"}]}))
    return path


def test_the_other_arithmetic_is_right_by_hand(tmp_path):
    for number, events in enumerate((NEW, OLD)):
        found = kineto.events(written(tmp_path / f"{number}.json", events))
        assert kineto.work(found) == pytest.approx(FIGURES)
        assert kineto.whole(found) == (90.0, 220.0)
        # What begins before the span is not in it, and what outlasts it is cut.
        assert kineto.work(found, (140.0, 150.0)) == pytest.approx(kineto.Figures(1, 5e-6, 5e-6))


def run(python, module, *paths):
    command = [python, "-m", module, *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_kineto_s_files_give_the_figures_of_other_arithmetic(python_of, tmp_path):
    ours = [written(tmp_path / "new.json", NEW), written(tmp_path / "old.json", OLD)]
    samples = sorted(OWN.glob("*.json.gz")) if OWN else []
    status, said = run(python_of("pytorch"), "tests.gpu.parsed", *ours, *samples)
    assert status == 0, said
    assert len(said.splitlines()) == len(ours) + len(samples)
    assert "4 launches of 4 kernels, 0.0400 ms, active 0.0350 ms" in said.splitlines()[0]


SPACE = """
import sys
from tensorflow.tsl.profiler.protobuf import xplane_pb2
space = xplane_pb2.XSpace()
stats = ("tf_op", "annotation", "kernel_annotation")
def plane(name, lines):
    made = space.planes.add(name=name)
    for number, stat in enumerate(stats, 1):
        made.stat_metadata[number].name = stat
    for title, base, events in lines:
        line = made.lines.add(name=title, timestamp_ns=base)
        for kernel, offset, length, stat, told in events:
            number = len(made.event_metadata) + 1
            made.event_metadata[number].name = kernel
            event = line.events.add(metadata_id=number, offset_ps=offset, duration_ps=length)
            if stat:
                event.stats.add(metadata_id=1 + stats.index(stat), str_value=told)
plane("/device:GPU:0", [
    ("Stream #7(Compute)", 1000, [
        ("gemm", 0, 20_000_000, "tf_op", "model/dense/MatMul:MatMul"),
        ("fill", 30_000_000, 1_500_000, "annotation", "replica_1/drop/RandomUniform:RandomUniform#shape=(int32[3])#"),
        ("add", 40_000_000, 1_000_000, "kernel_annotation", "while/body:While::model/add:AddV2#id=1#"),
        ("lone", 50_000_000, 1_000_000, None, None)]),
    ("Stream #8(MemcpyH2D)", 11_000, [("MemcpyH2D", 5_000_000, 10_000_000, "annotation", "MakeTensorFromProto")]),
    ("TensorFlow Ops", 1000, [("model/dense/MatMul", 0, 90_000_000, None, None)])])
plane("/device:GPU:1", [("Stream #7(Compute)", 1000, [("gemm", 0, 5_000_000, "tf_op", "a:MatMul")])])
open(sys.argv[1], "wb").write(space.SerializeToString())
from tests.gpu import parsed_xplane
found = parsed_xplane.trace_of(space)
print([event.operator for event in found.kernels[0]])
"""


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_tensorflow_s_files_give_the_figures_of_other_arithmetic(python_of, tmp_path):
    python, path = python_of("tensorflow"), tmp_path / "made.xplane.pb"
    done = subprocess.run([python, "-c", SPACE, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    names = ["model/dense/MatMul", "", "replica_1/drop/RandomUniform", "model/add", ""]
    assert done.stdout.splitlines()[-1] == str(names)
    samples = sorted(OWN.glob("*.xplane.pb")) if OWN else []
    status, said = run(python, "tests.gpu.parsed_xplane", path, *samples)
    assert status == 0, said
    # GPU 0: 0 to 25, 30 to 31.5, 40 to 41, 50 to 51; GPU 1: 5.
    assert re.search(r"2 GPUs, 6 launches of 5 kernels, 0\.0385 ms, active 0\.0168 ms", said), said
