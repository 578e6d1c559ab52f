"""Real training steps in MXNet's Gluon: the loss of a linear fit falls. Then two workers add up an array through the
distributed key-value store. Prints what was proved."""

import ctypes
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

LIMIT_S = 120.0
SUM = 3.0
ROLES = ("scheduler", "server", "worker", "worker")


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


def add_up():
    """Be one of the two workers; importing MXNet as a scheduler or a server is all that these do."""
    load_cuda()
    import mxnet as mx

    store = mx.kv.create("dist_sync")
    store.init("sum", mx.nd.zeros((10,)))
    store.push("sum", mx.nd.full((10,), store.rank + 1.0))
    found = mx.nd.zeros((10,))
    store.pull("sum", out=found)
    if not (found.asnumpy() == SUM).all():
        raise SystemExit(f"worker {store.rank} has the sum {found.asnumpy()[0]}, not {SUM}")


def exchange():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    facts = {"PS_ROOT_URI": "127.0.0.1", "PS_ROOT_PORT": port, "NUM_WORKER": 2, "NUM_SERVER": 1}
    facts.update(INTERFACE="lo", NODE_HOST="127.0.0.1")
    children = []
    try:
        for role in ROLES:
            environment = {**os.environ, **{f"DMLC_{name}": str(value) for name, value in facts.items()}}
            environment["DMLC_ROLE"] = role
            children.append(subprocess.Popen([sys.executable, "-I", __file__, role], env=environment))
        ended = [child.wait(LIMIT_S) for child in children]
    finally:
        for child in children:
            child.kill()
    if any(ended):
        raise SystemExit(f"scheduler, server and workers ended with {ended}")


def train():
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
    return f"mxnet {mx.__version__} on {device}: loss {losses[0]:.6f} -> {losses[1]:.6f}"


def main():
    trained = train()
    exchange()
    print(f"{trained}; two workers through the key-value store: equal sums")


if __name__ == "__main__":
    add_up() if len(sys.argv) > 1 else main()
