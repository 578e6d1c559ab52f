"""Synthetic batches lie where the plan says, in every framework alike: at the usual place or on each rank's own device.

There is no GPU here. The second device stands for a GPU that is not the first, on which TensorFlow and CNTK would put
what they are not told to put elsewhere; ``meta`` stands for one of PyTorch's. Page-locked memory is CUDA's: it is not
tried.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.trainer_process import ROOT, environment_for, make_job, run

BEGIN = """
import json, sys
from workers.trainer.base import job as jobs
of_host, of_device = (jobs.job_of(json.load(open(path))) for path in sys.argv[1:])
"""
# Each defines where the images of rank 1 of a job lie, of a process that drives ranks 0 and 1 where one can.
SCRIPTS = {
    "pytorch": """
import torch
from suites.assemble.pytorch import build as assembled

def where(job):
    (images, _), _ = next(assembled.build(job, job.processes[0], torch.device("meta")).batches(0))
    return {"cpu": "host", "meta": "device"}[images.device.type]
""",
    "tensorflow": """
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from suites.assemble.tensorflow import build as assembled
assembled.PLACES["device"] = "/CPU:{}"

def where(job):
    with tf.device("/CPU:1"):
        built = assembled.build(job, job.processes[0]._replace(ranks=(0, 1)))
        (images, _), _ = next(built.batches(1))
    return {"CPU:0": "host", "CPU:1": "device"}[images.device.rpartition("device:")[2]]
""",
    "mxnet": """
from suites.assemble.mxnet import build as assembled
from workers.trainer.frameworks.mxnet.library import mx

def where(job):
    (images, _), _ = next(assembled.build(job, [mx.cpu(0), mx.cpu(1)]).batches(1))
    return {0: "host", 1: "device"}[images.context.device_id]
""",
    "cntk": """
import warnings
warnings.simplefilter("ignore")
import cntk
from suites.assemble.cntk import build as assembled
asked = set()
made = cntk.Value
def note(batch, device):
    asked.add(str(device))
    return made(batch, device=cntk.cpu())
cntk.Value = note
cntk.gpu = lambda index: "GPU %d" % index

def where(job):
    asked.clear()
    next(assembled.build(job, job.processes[0]).batches(0))
    return {"CPU": "host", "GPU 0": "device"}[asked.pop() if len(asked) == 1 else "several"]
""",
}


END = "print(where(of_host), where(of_device))"


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in sorted(SCRIPTS)]
)
@pytest.mark.after_change
def test_a_synthetic_batch_lies_on_the_host_or_on_its_own_rank_s_device_as_the_plan_says(
    framework, python_of, tmp_path
):
    paths = []
    for place in ("host", "device"):
        job = make_job("resnet_50", framework, **({} if place == "host" else {"data_on": place}))
        paths.append(str(tmp_path / f"{place}.json"))
        Path(paths[-1]).write_text(json.dumps({**job, "process": "worker-0"}))
    python = python_of(framework)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, "-c", BEGIN + SCRIPTS[framework] + END, *paths]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, timeout=240)
    assert done.stdout.split()[-2:] == ["host", "device"]


@pytest.mark.framework("mxnet")
def test_where_they_lie_is_recorded(python_of, tmp_path):
    (trainer,) = run(make_job("resnet_50", "mxnet", max_steps=2), tmp_path, python_of("mxnet"))
    assert trainer.data("built")[0]["data_on"] == "host", trainer.output
