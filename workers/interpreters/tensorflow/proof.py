"""One real training step in TensorFlow: the loss of a linear fit falls. Then two workers add up a tensor over gRPC.
Prints what was proved."""

import json
import os
import socket
import subprocess
import sys

import tensorflow as tf

LIMIT_S = 180.0
SUM = 3.0


def train():
    tf.random.set_seed(1)
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    with tf.device(f"/{device}:0"):
        inputs, targets = tf.random.normal([64, 8]), tf.random.normal([64, 1])
        weights = tf.Variable(tf.zeros([8, 1]))
        losses = [_step(inputs, targets, weights) for _ in range(2)]
    if not losses[1] < losses[0]:
        raise SystemExit(f"the loss did not fall: {losses!r}")
    return f"on {device.lower()}: loss {losses[0]:.6f} -> {losses[1]:.6f}"


def _step(inputs, targets, weights):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - targets))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return float(loss)


def add_up():
    """Be one of the two that TF_CONFIG names."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = strategy.cluster_resolver.task_id

    @tf.function
    def total():
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(rank + 1.0)), axis=None)

    found = float(total())
    if found != SUM:
        raise SystemExit(f"worker {rank} has the sum {found}, not {SUM}")


def exchange():
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        workers = [f"127.0.0.1:{probe.getsockname()[1]}" for probe in (one, other)]
    ranks = [_worker(workers, index) for index in range(2)]
    try:
        ended = [rank.wait(LIMIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(ended):
        raise SystemExit(f"two workers over gRPC ended with {ended}")


def _worker(workers, index):
    cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
    # Both on the CPU: two processes would not share one GPU.
    environment = {**os.environ, "TF_CONFIG": json.dumps(cluster), "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen([sys.executable, "-I", __file__, "worker"], env=environment)


def main():
    trained = train()
    exchange()
    print(f"tensorflow {tf.__version__} {trained}; two workers over gRPC: equal sums")


if __name__ == "__main__":
    add_up() if "worker" in sys.argv else main()
