"""For each framework named: two training steps on a GPU, after which the loss has fallen. Fails without a GPU.

A driver that is there proves nothing: it may be too old for the framework's CUDA, or the framework built without. Runs
in the environment that it proves, down to Python 3.6. Prints what was proved.
"""

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
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        absent("torch", torch.__version__, error)
    trained = beside("pytorch").train()
    return f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}, {trained}"


def tensorflow():
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        how = "with" if tf.test.is_built_with_cuda() else "without"
        absent("tensorflow", tf.__version__, f"this build is {how} CUDA; see what it printed above")
    tf.config.set_soft_device_placement(False)
    trained = beside("tensorflow").train()
    return f"{tf.config.experimental.get_device_details(gpus[0]).get('device_name', gpus[0].name)}, {trained}"


def mxnet():
    proof = beside("mxnet")
    proof.load_cuda()
    import mxnet as mx

    if not mx.context.num_gpus():
        how = "with" if mx.runtime.Features().is_enabled("CUDA") else "without"
        absent("mxnet", mx.__version__, f"this build is {how} CUDA")
    return proof.train()


def cntk():
    proof = beside("cntk")  # first: it keeps CNTK from warning of this Linux
    import cntk as library

    gpus = [one for one in library.device.all_devices() if one.type() == library.device.DeviceKind.GPU]
    if not gpus or not library.device.try_set_default_device(library.device.gpu(0)):
        absent("cntk", library.__version__, "it has none among its devices")
    losses, _ = proof.train(*proof.data(), steps=2)
    if not losses[1] < losses[0]:
        raise SystemExit(f"cntk on {gpus[0]}: the loss did not fall: {losses!r}")
    return f"{gpus[0]}: loss {losses[0]:.6f} -> {losses[1]:.6f}"


def beside(name):
    """The program that proves the framework's own environment, as a module: its ``train`` takes a GPU where one is."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, name, "proof.py")
    spec = importlib.util.spec_from_file_location("proof_of_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROOFS = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet, "cntk": cntk}


def main(frameworks):
    print("; ".join(f"{framework} on {PROOFS[framework]()}" for framework in frameworks))


if __name__ == "__main__":
    main(sys.argv[1:])
