"""TensorFlow in fp32, with a training step of our own in a ``tf.function``; a process may drive several devices.

A model for it is ``build(job, process)`` in ``suites/models/<model>/tensorflow.py``, which returns an object with
``variables`` (the trainable ones, in a fixed order), ``loss(batch)`` (a scalar tensor; called in the ``tf.function``),
``batches(rank)`` (an endless iterator of (tensors, work)) and ``optimizer`` {learning_rate, momentum, weight_decay}.
"""

import importlib
import shutil
import tempfile
import time

import tensorflow as tf

from workers.trainer import job as jobs
from workers.trainer.failure import TrainerError
from workers.trainer.frameworks import tensorflow_trace
from workers.trainer.work import total

# strategy -> the module with its class ``Strategy`` (see ``tensorflow_single``). Each is imported only where it is
# asked for: the interpreter of one strategy need not have the library of another.
STRATEGIES = {
    "single": "tensorflow_single",
    "mirrored": "tensorflow_mirrored",
    "multi-worker-mirrored": "tensorflow_multi_worker",
    "horovod": "tensorflow_horovod",
}

PROFILER_REST_S = 0.1  # between the last profiled call and the end of the profiler: judgement


class Adapter(object):
    """See ``workers.trainer.frameworks``."""

    abilities = ("activity",)

    def __init__(self):
        self._device = None
        self._mathematics = None
        self._strategy = None
        self._model = None
        self._momenta = None
        self._update = None
        self._batches = None
        self._loss = None

    def versions(self):
        libraries = {"numpy": importlib.import_module("numpy").__version__}
        build = tf.sysconfig.get_build_info()
        for name in ("cuda_version", "cudnn_version"):
            if build.get(name):
                libraries[name.split("_")[0]] = build[name]
        return {"framework": "tensorflow", "version": tf.__version__, "libraries": libraries}

    def join(self, job, process):
        self._mathematics = _mathematics(job["plan"]["precision"])
        self._device = _device(process)
        self._strategy = _strategy(job)
        return self._strategy.join(job, process, self._device)

    def serve(self, job, process):
        _strategy(job).serve(job, process)

    def build(self, job, process, watch):
        tf.random.set_seed(job["plan"]["seed"])
        with self._strategy.scope():
            self._model = importlib.import_module(job["model"]["module"] + ".tensorflow").build(job, process)
            self._momenta = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in self._model.variables]
        self._strategy.begin(self._model.variables)
        self._update = tf.function(lambda batch: self._strategy.run(self._train, batch), jit_compile=False)
        self._batches = [watch(self._model.batches(rank)) for rank in process["ranks"]]
        parameters = sum(variable.shape.num_elements() for variable in self._model.variables)
        return {
            "parameters": parameters,
            "mathematics": self._mathematics,
            "device": self._device_name(),
            "exchange": self._strategy.exchange(),
        }

    def _train(self, batch):
        """One rank's update by SGD with momentum and coupled weight decay, as ``torch.optim.SGD`` does it."""
        variables, facts = self._model.variables, self._model.optimizer
        with tf.GradientTape() as tape:
            loss = self._model.loss(batch)
        # An embedding's is sparse: dense everywhere, as other frameworks have it.
        gradients = [tf.convert_to_tensor(gradient) for gradient in tape.gradient(loss, variables)]
        gradients = self._strategy.mean(gradients)
        for variable, momentum, gradient in zip(variables, self._momenta, gradients):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=momentum.handle,
                lr=facts["learning_rate"],
                grad=gradient + facts["weight_decay"] * variable,
                momentum=facts["momentum"],
            )
        return loss

    def step(self):
        found = [next(batches) for batches in self._batches]
        self._loss = self._update(self._strategy.batch([batch for batch, _ in found]))
        return total([work for _, work in found])

    def synchronize(self):
        """Fetch the last losses: updates are in the same graph call, and a device runs its calls in order."""
        if self._loss is not None:
            self._losses()
        if self._device.startswith("/GPU"):
            tf.test.experimental.sync_devices()

    def loss(self):
        losses = self._losses()
        return sum(losses) / len(losses)

    def _losses(self):
        return [float(loss.numpy()) for loss in self._strategy.of_ranks(self._loss)]

    def activity(self, steps):
        """Profile ``steps`` steps: union of kernel intervals on a GPU, of operator intervals on a CPU device."""
        folder = tempfile.mkdtemp(prefix="tbd-trace-")
        try:
            options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
            with tf.profiler.experimental.Profile(folder, options=options):
                with tf.profiler.experimental.Trace("tbd.activity"):
                    for _ in range(steps):
                        self.step()
                    self.synchronize()
                # Threads that still record while the profiler collects can corrupt the heap (seen once in TensorFlow
                # 2.21, "munmap_chunk(): invalid pointer"): those of the other workers' last calls come to rest first.
                time.sleep(PROFILER_REST_S)
            return tensorflow_trace.activity(folder, self._device.startswith("/GPU"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def memory(self):
        if not self._device.startswith("/GPU"):
            return None
        names = [device.name.partition("device:")[2] for device in tf.config.list_logical_devices("GPU")]
        peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in names]
        return {"peak_bytes": max(peaks), "method": "tf.config.experimental.get_memory_info, the fullest GPU"}

    def weights(self, index):
        for variable in self._model.variables:
            yield self._strategy.of_ranks(variable)[index].numpy()

    def close(self):
        self._batches = self._model = self._update = None
        if self._strategy:
            self._strategy.close()

    def failure_of(self, error):
        if isinstance(error, tf.errors.ResourceExhaustedError):
            return "out_of_memory"
        return self._strategy.failure_of(error) if self._strategy else None

    def _device_name(self):
        if not self._device.startswith("/GPU"):
            return "cpu"
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        return details.get("device_name", "unknown GPU")


def _strategy(job):
    module = STRATEGIES[job["plan"]["strategy"]]
    return importlib.import_module("workers.trainer.frameworks." + module).Strategy()


def _device(process):
    """Return the device's name; the agent has hidden all GPUs but this process's own.

    Raises:
        TrainerError: ``unsupported``, this build or this host has no GPU to offer.
    """
    if jobs.device_kind(process) == "cpu":
        return "/CPU:0"
    if not tf.config.list_physical_devices("GPU"):
        raise TrainerError("unsupported", "TensorFlow %s finds no GPU here" % tf.__version__)
    return "/GPU:0"


def _mathematics(precision):
    """Set the precision and the threads, before TensorFlow computes anything; return what is in force.

    Raises:
        TrainerError: ``unsupported``, a precision that this adapter does not do.
    """
    if precision != "fp32":
        raise TrainerError("unsupported", "this adapter computes in fp32, not in %s" % precision)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    threads = jobs.threads()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return {
        "precision": precision,
        "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "jit_compile": False,
        "threads": tf.config.threading.get_intra_op_parallelism_threads(),
    }
