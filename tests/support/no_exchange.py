"""The trainer with a strategy that exchanges nothing: ``python -m tests.support.no_exchange --job PATH --events PATH``.

Everything else runs as it should, and nobody says anything: what a broken combination of libraries does.
"""

import importlib
import sys

from workers.trainer import __main__ as trainer
from workers.trainer import protocol

# framework -> (module of the strategy, its verb that exchanges); the verb then gives back what it was given.
EXCHANGES = {"pytorch": ("pytorch.ddp", "_wrapped"), "tensorflow": ("tensorflow.mirrored", "mean")}


def main(arguments):
    framework = protocol.read_job(arguments[arguments.index("--job") + 1])["plan"]["framework"]
    module, verb = EXCHANGES[framework]
    strategy = importlib.import_module("workers.trainer.frameworks." + module).Strategy
    setattr(strategy, verb, lambda self, given: given)
    return trainer.main(arguments)


if __name__ == "__main__":
    trainer.leave(main(sys.argv[1:]))
