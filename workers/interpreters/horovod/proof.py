"""For each framework named: processes all-reduce and train two steps, each on data of its own.

The weights must be equal afterwards and the loss must have fallen. Two ranks on two GPUs exchange over NCCL. NCCL takes
one rank for a GPU: where there is only one, that is one rank over NCCL, beside two over Gloo on the CPU. Without GPUs
it is the latter alone. ``horovodrun --check-build`` would not do: it names frameworks that are not there. Prints what
was proved.
"""

import importlib
import json
import os
import subprocess
import sys
import threading

LIMIT_S = 180.0
LEARNING_RATE = 0.1


def main(frameworks):
    said = [f"horovod {importlib.import_module('horovod').__version__}"]
    for framework in frameworks:
        for kind, world_size in plan(gpus(framework)):
            said.append(checked(framework, kind, run(framework, kind, world_size)))
    print("; ".join(said))


def plan(count):
    """Return [(kind of device, number of ranks)] that can be proved with ``count`` GPUs."""
    if count >= 2:
        return [("cuda", 2)]
    return [("cpu", 2)] + [("cuda", 1)] * count


def gpus(framework):
    """Return the number of GPUs that the framework finds, asked in a process of its own: ranks get one each."""
    if not any(os.path.exists(path) for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl")):
        return 0
    command = [sys.executable, "-I", __file__, "--gpus", framework]
    return int(subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True).stdout.splitlines()[-1])


def count_gpus(framework):
    library = importlib.import_module({"pytorch": "torch"}.get(framework, framework))
    if framework == "tensorflow":
        return len(library.config.list_physical_devices("GPU"))
    return library.cuda.device_count() if framework == "pytorch" else library.context.num_gpus()


def checked(framework, kind, ranks):
    """Return a line of what ``ranks`` have found; it is an error where that is not what it must be."""
    mean = [value + (len(ranks) - 1) / 2 for value in (0.0, 0.5, 1.0)]
    for found in ranks:
        if found["reduced"] != mean:
            raise SystemExit(f"{framework} on {kind}: the mean over all ranks came out as {found['reduced']!r}")
        if found["weights"] != ranks[0]["weights"]:
            raise SystemExit(f"{framework} on {kind}: the replicas differ: {[each['weights'] for each in ranks]!r}")
    losses = [sum(found["losses"][step] for found in ranks) / len(ranks) for step in range(2)]
    if not losses[1] < losses[0]:
        raise SystemExit(f"{framework} on {kind}: the loss did not fall: {losses!r}")
    way = f"over {'nccl' if kind == 'cuda' else 'gloo'}, {len(ranks)} rank{'s' * (len(ranks) > 1)}"
    return f"{framework} {ranks[0]['version']} on {kind} {way}: loss {losses[0]:.6f} -> {losses[1]:.6f}"


def run(framework, kind, world_size):
    """Return what each of the ranks found."""
    http_server = importlib.import_module("horovod.runner.http.http_server")
    server = http_server.RendezvousHTTPServer(("127.0.0.1", 0), http_server.RendezvousHandler, False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    children = []
    try:
        for rank in range(world_size):
            command = [sys.executable, "-I", __file__, "--rank", framework, kind]
            environment = {**os.environ, **variables(rank, world_size, server.server_port)}
            environment["CUDA_VISIBLE_DEVICES"] = visible(rank) if kind == "cuda" else ""
            children.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        printed = [child.communicate(timeout=LIMIT_S)[0] for child in children]
        if any(child.returncode for child in children):
            raise SystemExit(f"{framework}: the ranks ended with {[child.returncode for child in children]}")
    finally:
        for child in children:
            child.kill()
        server.shutdown()
    return [json.loads(text.splitlines()[-1]) for text in printed]


def visible(rank):
    """Return the name of the GPU of a rank: one of those that this process may use, if it may not use all."""
    allowed = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return allowed[rank] if allowed else str(rank)


def variables(rank, world_size, port):
    """Return what ``horovodrun --gloo`` would tell a rank of this host."""
    facts = {"RANK": rank, "SIZE": world_size, "LOCAL_RANK": rank, "LOCAL_SIZE": world_size}
    facts.update(CROSS_RANK=0, CROSS_SIZE=1, HOSTNAME="host0", CONTROLLER="gloo", CPU_OPERATIONS="gloo")
    facts.update(GLOO_RENDEZVOUS_ADDR="127.0.0.1", GLOO_RENDEZVOUS_PORT=port, GLOO_IFACE="lo")
    return {f"HOROVOD_{name}": str(value) for name, value in facts.items()}


def tensorflow(kind):
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    with tf.device("/GPU:0" if kind == "cuda" else "/CPU:0"):
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
    require(kind, "GPU" if kind == "cuda" else "CPU", reduced.device)
    return hvd, tf.__version__, reduced.numpy(), losses, weights.numpy()


def mxnet(kind):
    import horovod.mxnet as hvd
    import mxnet as mx

    hvd.init()
    device = mx.gpu(0) if kind == "cuda" else mx.cpu(0)
    reduced = hvd.allreduce(mx.nd.array([0.0, 0.5, 1.0], ctx=device) + hvd.rank(), average=True, name="proof")
    require(kind, device.device_type, str(reduced.context))
    mx.random.seed(hvd.rank())
    inputs, targets = (mx.nd.random.normal(shape=(64, n), ctx=device) for n in (8, 1))
    model = mx.gluon.nn.Dense(1, in_units=8, use_bias=False)
    model.initialize(mx.init.Zero(), ctx=device)
    trainer = hvd.DistributedTrainer(model.collect_params(), "sgd", {"learning_rate": LEARNING_RATE})
    losses = []
    for _ in range(2):
        with mx.autograd.record():
            loss = ((model(inputs) - targets) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss.asscalar()))
    return hvd, mx.__version__, reduced.asnumpy(), losses, model.weight.data(device).asnumpy()


def pytorch(kind):
    import horovod.torch as hvd
    import torch

    hvd.init()
    reduced = hvd.allreduce(torch.tensor([0.0, 0.5, 1.0], device=kind) + hvd.rank(), op=hvd.Average)
    require(kind, kind, str(reduced.device))
    torch.manual_seed(hvd.rank())
    inputs, targets = torch.randn(64, 8, device=kind), torch.randn(64, 1, device=kind)
    model = torch.nn.Linear(8, 1).to(kind)
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
    return hvd, torch.__version__, reduced.cpu().numpy(), losses, model.weight.detach().cpu().numpy()


def require(kind, wanted, place):
    """End with an error where what was reduced does not lie on the device that it should."""
    if wanted not in place:
        raise SystemExit(f"what was reduced on {kind} lies on {place}")


def be_a_rank(framework, kind):
    train = {"tensorflow": tensorflow, "mxnet": mxnet, "pytorch": pytorch}[framework]
    hvd, version, reduced, losses, weights = train(kind)
    if hvd.size() != int(os.environ["HOROVOD_SIZE"]):
        raise SystemExit(f"horovod counts {hvd.size()} ranks")
    if kind == "cuda" and not hvd.nccl_built():
        raise SystemExit("this build of Horovod has no NCCL")
    found = {"version": version, "losses": losses, "reduced": reduced.tolist(), "weights": weights.ravel().tolist()}
    print(json.dumps(found), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        be_a_rank(*sys.argv[2:])
    elif sys.argv[1] == "--gpus":
        print(count_gpus(sys.argv[2]))
    else:
        main(sys.argv[1:])
