"""For each framework named: two training steps on a GPU, after which the loss has fallen. Fails without a GPU.

A driver that is there proves nothing: it may be too old for the framework's CUDA, or the framework built without. Runs
in the environment that it proves, down to Python 3.6. Prints what was proved.
"""

import importlib
import importlib.util
import os
import sys


def absent(framework, version, why):
    """There is a driver, and the framework finds no GPU."""
    raise SystemExit(f"{framework} {version} finds no GPU although NVIDIA's driver is there: {why}")


def pytorch():
    import torch

    try:
        torch.cuda.init()
        device = torch.device("cuda", 0)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        absent("torch", torch.__version__, error)
    torch.manual_seed(1)
    inputs, targets = torch.randn(64, 8, device=device), torch.randn(64, 1, device=device)
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}"


def tensorflow():
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        how = "with" if tf.test.is_built_with_cuda() else "without"
        absent("tensorflow", tf.__version__, f"this build is {how} CUDA; see what it printed above")
    tf.config.set_soft_device_placement(False)
    tf.random.set_seed(1)
    losses = []
    with tf.device("/GPU:0"):
        inputs, targets = tf.random.normal([64, 8]), tf.random.normal([64, 1])
        weights = tf.Variable(tf.zeros([8, 1]))
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - targets))
            weights.assign_sub(0.1 * tape.gradient(loss, weights))
            losses.append(float(loss))
    return losses, tf.config.experimental.get_device_details(gpus[0]).get("device_name", gpus[0].name)


def mxnet():
    _beside("mxnet").load_cuda()
    import mxnet as mx

    if not mx.context.num_gpus():
        how = "with" if mx.runtime.Features().is_enabled("CUDA") else "without"
        absent("mxnet", mx.__version__, f"this build is {how} CUDA")
    device = mx.gpu(0)
    mx.random.seed(1)
    inputs, targets = (mx.nd.random.normal(shape=(64, n), ctx=device) for n in (8, 1))
    model = mx.gluon.nn.Dense(1, in_units=8)
    model.initialize(ctx=device)
    trainer = mx.gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    return losses, str(device)


def _beside(name):
    """The program that proves another environment, as a module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, name, "proof.py")
    spec = importlib.util.spec_from_file_location("proof_of_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cntk():
    import warnings

    warnings.simplefilter("ignore")  # CNTK warns of every Linux but Ubuntu 16.04
    import cntk as library
    import numpy

    gpus = [one for one in library.device.all_devices() if one.type() == library.device.DeviceKind.GPU]
    if not gpus or not library.device.try_set_default_device(library.device.gpu(0)):
        absent("cntk", library.__version__, "it has none among its devices")
    generator = numpy.random.RandomState(1)
    data = [generator.standard_normal((64, columns)).astype(numpy.float32) for columns in (8, 1)]
    x, y = library.input_variable(8), library.input_variable(1)
    weights = library.parameter((8, 1), init=0.0)
    loss = library.reduce_sum(library.square(library.times(x, weights) - y))
    learner = library.sgd([weights], library.learning_parameter_schedule(0.1))
    trainer = library.Trainer(None, (loss, None), [learner])
    losses = []
    for _ in range(2):
        trainer.train_minibatch({x: data[0], y: data[1]})
        losses.append(trainer.previous_minibatch_loss_average)
    return losses, str(gpus[0])


PROOFS = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet, "cntk": cntk}


def main(frameworks):
    said = []
    for framework in frameworks:
        losses, where = PROOFS[framework]()
        if not losses[1] < losses[0]:
            raise SystemExit(f"{framework} on {where}: the loss did not fall: {losses!r}")
        said.append(f"{framework} on {where}: loss {losses[0]:.6f} -> {losses[1]:.6f}")
    print("; ".join(said))


if __name__ == "__main__":
    main(sys.argv[1:])
