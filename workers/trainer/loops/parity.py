"""What all frameworks must agree on, computed by one of them: ``tbd parity`` compares it with others.

A process of its own, after which nothing is timed. Its job has one more key, ``parity`` {case, makes_case, found}:

``case``
    path of an npz: weights by their described names, the arrays ``batch.<field>``, and ``optimizer.<fact>``, numbers
    that take the place of the model's own
``makes_case``
    whether this process writes that file, before it computes like all others. It is PyTorch's in double precision,
    whose result is the exact one
``found``
    path of the npz that this process writes. Of the case, as it is evaluated before anything else:
    ``evaluated.output_<number>`` and ``evaluated.loss``. Of its training: ``loss``, ``gradient.<name>``,
    ``statistic.<name>`` (running ones, after one batch), ``margin.<name>`` (how near the case is to a border, where the
    framework can tell), and ``weight.<name>`` after ``UPDATES`` steps. Of a training from the job's seed:
    ``initial.<name>``, its weights, and ``losses``, of its first batches
"""

import itertools
import math
import zipfile

from workers.trainer.base import optimizer, updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Emit, Watch
from workers.trainer.control import Channel

# Few: rounding makes any two trainings part sooner or later, those of one framework on 1 and 2 threads too. The second
# shows the momentum, the third that it goes on.
UPDATES = 3
BATCHES = 2

# Judgements. How much of the weights' length one update changes: far more than rounding (6e-8), so little that no
# number of the network comes to another side of a border.
CHANGE = 2e-5
# How much of a gradient's length weight decay adds to it: to be seen.
DECAY = 0.3
# What is left of a gradient where a rule limits its norm: to be seen.
LIMITED = 0.5


def compute(
    job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, watch: Watch, clock: Clock
) -> None:
    """Carry out the phase; says ``profiled`` when the result is written.

    Raises:
        TrainerError: several ranks take part, or the job has no ``parity``.
        Exception: whatever the framework raises; the caller translates it by the adapter.
    """
    if job.parity is None:
        raise TrainerError("setup_failed", "the job names no files for what frameworks agree on")
    if job.world_size != 1:
        raise TrainerError("unsupported", "what frameworks agree on is computed by one rank")
    begun = clock()
    channel.join()
    adapter.join(job, process)
    path = job.parity.case
    if job.parity.makes_case:
        _make_case(job, process, adapter, watch, path)
    adapter.build(_given(job, path), process, watch)
    parts = (_evaluated(adapter, path), _first_pass(adapter), _updated(adapter), _begun(adapter, job, process, watch))
    _write(job.parity.found, itertools.chain(*parts))
    emit("profiled", profile="parity", steps=UPDATES, elapsed_s=clock() - begun)


def _make_case(job, process, adapter, watch, path):
    adapter.build(job, process, watch)
    case = adapter.case()
    _write(path, case.items())
    adapter.build(job._replace(given=path), process, watch)
    gradients, weight = adapter.gradients()["gradients"], _length(adapter.state()["weights"])
    rule = optimizer.of_job(job, next(iter(updates.names(job)), None))
    numbers = _numbers(rule, gradients, weight)
    _write(path, itertools.chain(case.items(), _prefixed("optimizer", numbers)))


def _numbers(rule, gradients, weight):
    """Return what takes the place of a rule's numbers, for weights of the length ``weight``.

    Adam divides each gradient by its own size and epsilon: with a small one rounding would decide which way a weight
    goes whose gradient is nothing. Here epsilon is as large as gradients are, and so it is seen where it is added. Of a
    rate that changes, the first updates show how. A limit of the gradients' norm is a half of it.
    """
    gradient, numbers = _length(gradients), {}
    if rule["gradient_norm_limit"] is not None:
        gradients = {name: LIMITED * array for name, array in gradients.items()}
        gradient *= LIMITED
        numbers["gradient_norm_limit"] = gradient
    update = gradient
    if rule["name"] != "sgd":
        numbers["epsilon"] = gradient / math.sqrt(sum(array.size for array in gradients.values()))
        update = _length({name: array / (abs(array) + numbers["epsilon"]) for name, array in gradients.items()})
    numbers["learning_rate"] = CHANGE * weight / update
    numbers["weight_decay"] = DECAY * (update if rule["name"] == "adamw" else gradient) / weight
    if rule["warmup_steps"]:
        numbers["warmup_steps"] = UPDATES - 1
    if rule["decay_steps"]:
        numbers["decay_steps"] = 2 * UPDATES
    return numbers


def _length(arrays):
    """Return the Euclidean length of all arrays together."""
    return math.sqrt(sum(float((array.astype("float64") ** 2).sum()) for array in arrays.values()))


def _given(job, path):
    """Return the job that begins with the case and updates by its numbers, whatever the size of the batch."""
    import numpy

    with numpy.load(path) as case:
        numbers = {name.partition(".")[2]: float(case[name]) for name in case if name.startswith("optimizer.")}
    samples = job.plan.per_device_batch_size
    facts = optimizer.changed(job.model.optimizer, learning_rate_samples=samples, **numbers)
    return job._replace(given=path, model=job.model._replace(optimizer=facts))


def _evaluated(adapter, path):
    """Tell what the network gives for the case and its loss, with the statistics that a training begins with."""
    import numpy

    with numpy.load(path) as case:
        batch = [case[name] for name in case.files if name.startswith("batch.")]
    outputs, loss = adapter.evaluate(batch)
    found = {"output_%d" % number: array for number, array in enumerate(outputs)}
    yield from _prefixed("evaluated", dict(found, loss=loss))


def _first_pass(adapter):
    """Tell the gradients of the case, and the statistics that one batch leaves."""
    first = adapter.gradients()
    yield "loss", first["loss"]
    yield from _prefixed("gradient", first["gradients"])
    yield from _prefixed("margin", first["margins"])
    yield from _prefixed("statistic", adapter.state()["statistics"])


def _updated(adapter):
    """Tell what the weights of the case become."""
    for _ in range(UPDATES):
        adapter.step()
    adapter.synchronize()
    yield from _prefixed("weight", adapter.state()["weights"])


def _begun(adapter, job, process, watch):
    """Tell what a training of the job begins with: its weights, and the losses of its first batches."""
    adapter.build(job, process, watch)
    yield from _prefixed("initial", adapter.state()["weights"])
    yield "losses", [adapter.gradients()["loss"] for _ in range(BATCHES)]


def _prefixed(kind, arrays):
    for name, array in arrays.items():
        yield "%s.%s" % (kind, name), array


def _write(path, arrays):
    """Write an npz of (name, array) pairs, each as it comes: all that is found of a large network would not fit into
    memory beside it, and some frameworks give a view of what they go on to change."""
    import numpy

    with zipfile.ZipFile(path, "w") as file:
        for name, array in arrays:
            with file.open(name + ".npy", "w", force_zip64=True) as member:
                numpy.lib.format.write_array(member, numpy.asarray(array), allow_pickle=False)
