"""Synthetic batches begin in the host's memory in every framework, and are copied to each rank's own device."""

import json
import subprocess

import pytest

from tests.trainer_process import ROOT, environment_for, make_job

# The second device stands for the first GPU, on which TensorFlow and CNTK would put what they are not told to put
# elsewhere. PyTorch and MXNet put nothing on a device unasked.
SCRIPTS = {
    "tensorflow": """
import json, sys
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from suites.assemble import tensorflow as assembled
from workers.trainer import job as jobs
with tf.device("/CPU:1"):
    (images, _), _ = next(assembled.build(jobs.job_of(json.load(open(sys.argv[1]))), None).batches(0))
print(images.device.rpartition("device:")[2])
""",
    "cntk": """
import json, sys, warnings
warnings.simplefilter("ignore")
import cntk
from suites.assemble import cntk as assembled
asked = []
made = cntk.Value
def note(batch, *words, **more):
    asked.append(more.get("device"))
    return made(batch, *words, **more)
cntk.Value = note
import numpy
assembled.value("label", numpy.zeros((4, 2)))
print("CPU:0" if asked == [cntk.device.cpu()] else asked)
""",
}


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in sorted(SCRIPTS)]
)
def test_a_synthetic_batch_lies_on_the_host_whatever_device_is_the_first(framework, python_of, tmp_path):
    python = python_of(framework)
    (tmp_path / "job.json").write_text(json.dumps({**make_job("resnet_50", framework), "process": "worker-0"}))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, "-c", SCRIPTS[framework], str(tmp_path / "job.json")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, timeout=240)
    assert done.stdout.split()[-1:] == ["CPU:0"], done.stdout
