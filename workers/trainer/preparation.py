"""Runs the module that makes a dataset: ``python -m workers.trainer.preparation MODULE [ARGUMENT …]``.

Its exit status is the module's own; but where a full disk ended it, that which a trainer has then.
"""

import runpy
import sys
import traceback
from typing import Sequence

from workers.trainer.base.failure import lacks_space
from workers.trainer.protocol import EXIT_STATUS


def main(words: Sequence[str]) -> int:
    """Run ``words[0]`` as a program with the arguments that follow; return the exit status of one that says none.

    Raises:
        SystemExit: the program's own.
    """
    sys.argv = list(words)
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except Exception as error:
        traceback.print_exc()
        return EXIT_STATUS["no_space"] if lacks_space(error) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
