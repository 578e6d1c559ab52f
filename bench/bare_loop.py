"""A training loop as somebody without tbd would write it: the suite's ResNet-50, the framework, and a clock.

Runs in the framework's own interpreter: ``python -m bench.bare_loop FRAMEWORK JOB`` prints the time of
CLOCK_MONOTONIC at the end of each step, and goes on until it is ended.
"""

import sys
import time

from workers.trainer.base import job as jobs


def pytorch(job):
    """Return a function that makes one step."""
    import torch

    from suites.assemble.pytorch import build as suite

    torch.set_num_threads(len(job.processes[0].devices[0].cores))
    model = suite.build(job, job.processes[0], torch.device("cpu"))
    facts = model.updates[0].optimizer
    optimizer = torch.optim.SGD(
        model.network.parameters(), facts["learning_rate"], facts["momentum"], weight_decay=facts["weight_decay"]
    )
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def tensorflow(job):
    """Return a function that makes one step."""
    import tensorflow as tf

    from suites.assemble.tensorflow import build as suite

    threads = len(job.processes[0].devices[0].cores)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    model = suite.build(job, job.processes[0])
    facts = model.updates[0].optimizer
    momenta = [tf.Variable(tf.zeros_like(variable)) for variable in model.variables]
    batches = model.batches(0)

    @tf.function
    def update(batch):
        with tf.GradientTape() as tape:
            loss = model.loss(batch)
        for variable, momentum, gradient in zip(model.variables, momenta, tape.gradient(loss, model.variables)):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=momentum.handle,
                lr=facts["learning_rate"],
                grad=gradient + facts["weight_decay"] * variable,
                momentum=facts["momentum"],
            )
        return loss

    def step():
        batch, _ = next(batches)
        return float(update(batch))

    return step


def mxnet(job):
    """Return a function that makes one step; the number of threads is OMP_NUM_THREADS."""
    import mxnet as mx

    from suites.assemble.mxnet import build as suite

    model = suite.build(job, [mx.cpu(0)])
    facts = model.updates[0].optimizer
    options = {"learning_rate": facts["learning_rate"], "momentum": facts["momentum"], "wd": facts["weight_decay"]}
    trainer = mx.gluon.Trainer(model.parameters, "sgd", options, kvstore=None)
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        with mx.autograd.record():
            loss = model.loss(batch)
        loss.backward()
        trainer.step(1)
        mx.nd.waitall()
        return loss.asscalar()

    return step


def cntk(job):
    """Return a function that makes one step."""
    import cntk as library

    from suites.assemble.cntk import build as suite

    library.cntk_py.set_max_num_cputhreads(len(job.processes[0].devices[0].cores))
    library.try_set_default_device(library.cpu())
    model = suite.build(job, job.processes[0])
    facts = model.updates[0].optimizer
    learner = library.momentum_sgd(
        model.parameters,
        library.learning_parameter_schedule(facts["learning_rate"]),
        library.momentum_schedule(facts["momentum"]),
        unit_gain=False,
        l2_regularization_weight=facts["weight_decay"],
    )
    trainer = library.Trainer(None, (model.criterion, None), [learner])
    images, labels = model.arguments
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        trainer.train_minibatch({images: batch[0], labels: batch[1]})
        return trainer.previous_minibatch_loss_average

    return step


def main(framework, path):
    job = jobs.read(path)
    step = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet, "cntk": cntk}[framework](job)
    while True:
        step()
        print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
