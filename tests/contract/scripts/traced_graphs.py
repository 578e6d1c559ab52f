"""For each job of the list that the first argument names: what AutoGraph would change of the graphs of its updates.

Prints [[operators of the traced graph, whether AutoGraph's is the same], …] as JSON, a pair for each update.
"""

import json
import re
import sys

import tensorflow as tf

from workers.trainer.base import job as jobs
from workers.trainer.frameworks.tensorflow.adapter import Adapter


def described(graph):
    """The graph as text, without the numbers by which names count all functions of the process."""
    return re.sub(r"(\w)[-_]\d+\b", r"\1", str(graph.as_graph_def()))


def main(path):
    found = []
    with open(path) as file:
        every = [jobs.job_of(each) for each in json.load(file)]
    for job in every:
        adapter = Adapter()
        adapter.join(job, job.process)
        adapter.build(job, job.process, iter)
        for minimizer in adapter._minimizers:
            batch, _ = adapter._fetch()
            own = minimizer.graph(batch)
            with_autograph = tf.function(minimizer._function.python_function, autograph=True)
            other = with_autograph.get_concrete_function(batch).graph
            found.append([len(own.get_operations()), described(own) == described(other)])
        adapter.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
