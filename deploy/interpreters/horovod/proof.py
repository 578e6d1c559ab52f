"""For each framework named: two processes all-reduce over Gloo and train two steps, each on data of its own.

The weights must be equal afterwards and the loss must have fallen. ``horovodrun --check-build`` would not do: it names
frameworks that are not there. Prints what was proved.
"""

import importlib
import json
import os
import subprocess
import sys
import threading

WORLD_SIZE = 2
LIMIT_S = 180.0
LEARNING_RATE = 0.1


def main(frameworks):
    said = [f"horovod {importlib.import_module('horovod').__version__}"]
    for framework in frameworks:
        ranks = run(framework)
        for found in ranks:
            if found["reduced"] != [0.5, 1.0, 1.5]:
                raise SystemExit(f"{framework}: the mean over both ranks came out as {found['reduced']!r}")
        if ranks[0]["weights"] != ranks[1]["weights"]:
            raise SystemExit(f"{framework}: the replicas differ: {[found['weights'] for found in ranks]!r}")
        losses = [sum(found["losses"][step] for found in ranks) / WORLD_SIZE for step in range(2)]
        if not losses[1] < losses[0]:
            raise SystemExit(f"{framework}: the loss did not fall: {losses!r}")
        said.append(f"{framework} {ranks[0]['version']} over gloo, 2 ranks: loss {losses[0]:.6f} -> {losses[1]:.6f}")
    print("; ".join(said))


def run(framework):
    """Return what each of the ranks found."""
    http_server = importlib.import_module("horovod.runner.http.http_server")
    server = http_server.RendezvousHTTPServer(("127.0.0.1", 0), http_server.RendezvousHandler, False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    children = []
    try:
        for rank in range(WORLD_SIZE):
            command = [sys.executable, "-I", __file__, "--rank", framework]
            environment = {**os.environ, **variables(rank, server.server_port)}
            children.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        printed = [child.communicate(timeout=LIMIT_S)[0] for child in children]
        if any(child.returncode for child in children):
            raise SystemExit(f"{framework}: the ranks ended with {[child.returncode for child in children]}")
    finally:
        for child in children:
            child.kill()
        server.shutdown()
    return [json.loads(text.splitlines()[-1]) for text in printed]


def variables(rank, port):
    """Return what ``horovodrun --gloo`` would tell a rank of this host."""
    facts = {"RANK": rank, "SIZE": WORLD_SIZE, "LOCAL_RANK": rank, "LOCAL_SIZE": WORLD_SIZE}
    facts.update(CROSS_RANK=0, CROSS_SIZE=1, HOSTNAME="host0", CONTROLLER="gloo", CPU_OPERATIONS="gloo")
    facts.update(GLOO_RENDEZVOUS_ADDR="127.0.0.1", GLOO_RENDEZVOUS_PORT=port, GLOO_IFACE="lo")
    return {f"HOROVOD_{name}": str(value) for name, value in facts.items()}


def tensorflow():
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    reduced = hvd.allreduce(tf.constant([0.0, 0.5, 1.0]) + hvd.rank(), op=hvd.Average)
    tf.random.set_seed(hvd.rank())
    inputs, targets = tf.random.normal([64, 8]), tf.random.normal([64, 1])
    weights = tf.Variable(tf.zeros([8, 1]))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - targets))
        weights.assign_sub(LEARNING_RATE * hvd.DistributedGradientTape(tape).gradient(loss, [weights])[0])
        return loss

    losses = [float(step()) for _ in range(2)]
    return hvd, tf.__version__, reduced.numpy(), losses, weights.numpy()


def mxnet():
    import horovod.mxnet as hvd
    import mxnet as mx

    hvd.init()
    reduced = hvd.allreduce(mx.nd.array([0.0, 0.5, 1.0]) + hvd.rank(), average=True, name="proof")
    mx.random.seed(hvd.rank())
    inputs, targets = (mx.nd.random.normal(shape=(64, n)) for n in (8, 1))
    model = mx.gluon.nn.Dense(1, in_units=8, use_bias=False)
    model.initialize(mx.init.Zero())
    trainer = hvd.DistributedTrainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    return hvd, mx.__version__, reduced.asnumpy(), losses, model.weight.data().asnumpy()


def pytorch():
    import horovod.torch as hvd
    import torch

    hvd.init()
    reduced = hvd.allreduce(torch.tensor([0.0, 0.5, 1.0]) + hvd.rank(), op=hvd.Average)
    torch.manual_seed(hvd.rank())
    inputs, targets = torch.randn(64, 8), torch.randn(64, 1)
    model = torch.nn.Linear(8, 1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return hvd, torch.__version__, reduced.numpy(), losses, model.weight.detach().numpy()


def be_a_rank(framework):
    hvd, version, reduced, losses, weights = {"tensorflow": tensorflow, "mxnet": mxnet, "pytorch": pytorch}[framework]()
    if hvd.size() != WORLD_SIZE:
        raise SystemExit(f"horovod counts {hvd.size()} ranks")
    found = {"version": version, "losses": losses, "reduced": reduced.tolist(), "weights": weights.ravel().tolist()}
    print(json.dumps(found), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        be_a_rank(sys.argv[2])
    else:
        main(sys.argv[1:])
