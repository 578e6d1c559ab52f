"""What is TensorFlow's own in profiles: its layers are scopes, whose forward pass is held against one alone."""

import pytest

from tests.support.profiled import LSTM, RESNET
from tests.trainer_process import make_job, run

pytestmark = [pytest.mark.framework("tensorflow"), pytest.mark.after_change]

# Least seconds of the model's forward pass: alone, by the clock, and in a step, by the profiler. They are taken in
# turn: what else runs on the host is in neither, or in both.
FORWARD = """
import time
import tensorflow as tf
from workers.trainer.frameworks.tensorflow.adapter import Adapter
def passed_s(forward, batch):
    begun = time.monotonic()
    forward(batch).numpy()
    return time.monotonic() - begun
def compared(adapter, steps, layers=Adapter.layers):
    batch, _ = adapter._fetch()
    forward = tf.function(adapter._minimizers[0]._loss)
    forward(batch)
    alone, in_step = [], []
    for _ in range(12):
        alone.extend(passed_s(forward, batch) for _ in range(3))
        in_step.append(layers(adapter, 1)["breakdown"]["forward_s"])
    print("forward", min(alone), min(in_step), flush=True)
    return layers(adapter, steps)
Adapter.layers = compared
"""


@pytest.mark.parametrize(("model", "batch"), [(RESNET, 16), (LSTM, 512)])
def test_the_forward_pass_takes_as_long_as_one_alone(python_of, tmp_path, model, batch):
    """Alone it also fetches the loss, and in a step it also computes what an update can begin with."""
    job = make_job(model, "tensorflow", profile=["layers"], per_device_batch_size=batch)
    (trainer,) = run(job, tmp_path, python_of("tensorflow"), planted=[FORWARD])
    assert trainer.popen.returncode == 0, trainer.output
    (told,) = (line.split() for line in trainer.output.splitlines() if line.startswith("forward "))
    alone_s, in_step_s = map(float, told[1:])
    assert 0.4 * alone_s < in_step_s < 2.5 * alone_s
