"""The first step of a distributed training in CNTK as somebody without tbd would write it, run by mpirun.

``mpirun … -m bench.bare_gang_cntk JOB`` prints, on rank 0, the time (seconds since the epoch) when its first
step is done, and makes three steps. For Python 3.6.
"""

import sys
import time

import cntk

from suites.assemble.cntk import build as suite
from workers.trainer.base import job as jobs


def main(path):
    job = jobs.read(path)
    cntk.cntk_py.set_max_num_cputhreads(1)
    cntk.try_set_default_device(cntk.cpu())
    model = suite.build(job, job.processes[0])
    facts = model.updates[0].optimizer
    learner = cntk.momentum_sgd(
        model.parameters,
        cntk.learning_parameter_schedule(facts["learning_rate"]),
        cntk.momentum_schedule(facts["momentum"]),
        unit_gain=False,
        l2_regularization_weight=facts["weight_decay"],
    )
    learner = cntk.distributed.data_parallel_distributed_learner(learner)
    trainer = cntk.Trainer(None, (model.criterion, None), [learner])
    rank = cntk.distributed.Communicator.rank()
    batches = model.batches(rank)
    for step in range(3):
        (images, labels), _ = next(batches)
        trainer.train_minibatch({model.arguments[0]: images, model.arguments[1]: labels})
        if rank == 0 and step == 0:
            print(time.time(), flush=True)
    cntk.distributed.Communicator.finalize()


if __name__ == "__main__":
    main(sys.argv[1])
