"""Real training steps in MXNet's Gluon: the loss of a linear fit falls. Prints what was proved."""

import ctypes
import sysconfig
from pathlib import Path


def load_cuda():
    """Load the CUDA libraries that lie in packages of their own, where MXNet's CUDA build does not look for them."""
    waiting = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/lib/*.so.*"))
    for _ in range(len(waiting)):
        for path in list(waiting):
            try:
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue  # one that it needs comes later
            waiting.remove(path)


def main():
    load_cuda()
    import mxnet as mx

    mx.random.seed(1)
    device = mx.gpu(0) if mx.context.num_gpus() else mx.cpu(0)
    inputs, targets = (mx.nd.random.normal(shape=(64, n), ctx=device) for n in (8, 1))
    model = mx.gluon.nn.Dense(1, in_units=8)
    model.initialize(ctx=device)
    model.hybridize()
    trainer = mx.gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    if not losses[1] < losses[0]:
        raise SystemExit(f"the loss did not fall: {losses!r}")
    print(f"mxnet {mx.__version__} on {device}: loss {losses[0]:.6f} -> {losses[1]:.6f}")


main()
