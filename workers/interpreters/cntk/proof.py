"""One real training step in CNTK: the loss of a linear fit falls. Then one by two processes with a shared gradient:
their weights must be equal, and those of one process with both halves. Prints what was proved."""

import json
import subprocess
import sys
import warnings

# CNTK warns of every Linux but Ubuntu 16.04, and that there may be no GPU.
warnings.simplefilter("ignore")

import cntk  # noqa: E402
import numpy  # noqa: E402

MPIRUN = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none"]
MPIRUN += ["--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]


def data():
    generator = numpy.random.RandomState(1)
    return [generator.standard_normal((64, columns)).astype(numpy.float32) for columns in (8, 1)]


def train(inputs, targets, steps, distribute=lambda learner: learner):
    """Return (losses, weights) of so many steps on the same batch."""
    x, y = cntk.input_variable(8), cntk.input_variable(1)
    weights = cntk.parameter((8, 1), init=0.0)
    loss = cntk.reduce_sum(cntk.square(cntk.times(x, weights) - y))
    learner = cntk.sgd([weights], cntk.learning_parameter_schedule(0.1))
    trainer = cntk.Trainer(None, (loss, None), [distribute(learner)])
    losses = []
    for _ in range(steps):
        trainer.train_minibatch({x: inputs, y: targets})
        losses.append(trainer.previous_minibatch_loss_average)
    return losses, weights.value.ravel()


def one_of_two():
    """Train on one half of the data; print the weights."""
    learners = []

    def distribute(learner):
        learners.append(cntk.distributed.data_parallel_distributed_learner(learner))
        return learners[0]

    communicator = cntk.distributed.Communicator
    rank = cntk.distributed.mpi_communicator() and communicator.rank()
    inputs, targets = data()
    _, weights = train(inputs[rank::2], targets[rank::2], 1, distribute)
    print(f"weights of 1 of {communicator.num_workers()}: {weights.tolist()}")
    communicator.finalize()


def main():
    gpus = [device for device in cntk.device.all_devices() if device.type() == cntk.device.DeviceKind.GPU]
    losses, _ = train(*data(), steps=2)
    if not losses[1] < losses[0]:
        raise SystemExit(f"the loss did not fall: {losses!r}")
    command = [*MPIRUN, sys.executable, "-I", __file__, "one"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=120).stdout.decode()
    found = [line.split(": ")[1] for line in said.splitlines() if line.startswith("weights of 1 of 2: ")]
    expected = train(*data(), steps=1)[1]
    if len(found) != 2 or found[0] != found[1] or not numpy.allclose(expected, json.loads(found[0]), 1e-4, 1e-6):
        raise SystemExit(f"two processes have not shared their gradients: {found} against {expected.tolist()}")
    where = "cuda" if gpus else "cpu"
    fall = f"loss {losses[0]:.6f} -> {losses[1]:.6f}"
    print(f"cntk {cntk.__version__} on {where}: {fall}; two processes over MPI: equal")


one_of_two() if "one" in sys.argv else main()
