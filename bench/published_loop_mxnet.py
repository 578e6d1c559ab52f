"""How a network of the suite is trained in MXNet, or the published one in its place: see ``bench.published_loop``."""

import mxnet as mx

from suites import modules
from workers.trainer.frameworks.mxnet import optimizers


def built(job):
    """Return the suite's model; its threads are as many as OMP_NUM_THREADS says."""
    return modules.builder_of(job).build(job, [mx.cpu(0)])


def counted(step):
    """Return what ``step`` returns, and 0: MXNet counts no operations."""
    return step(), 0


def loop(name, model, job, theirs=None):
    """Return the loss of the first batch, computed as in training, and what trains so many steps and returns their
    losses; with the network of ``theirs``, where it is given."""
    (update,) = model.updates
    if theirs:
        model.network, trained = theirs.make(name, model, job)
        update = update._replace(parameters=trained)
    trainer = mx.gluon.Trainer(
        update.parameters, optimizers.make(update.optimizer, update.parameters), kvstore=None, update_on_kvstore=False
    )
    batches = model.batches(0)

    def step():
        batch, _ = next(batches)
        with mx.autograd.record():
            loss = update.loss(batch)
        loss.backward()
        trainer.step(1)
        return float(loss.asscalar())

    def train(steps):
        losses = [step() for _ in range(steps)]
        mx.nd.waitall()
        return losses

    with mx.autograd.train_mode():
        first = float(model.loss(next(model.batches(0))[0]).asscalar())
    return first, train
