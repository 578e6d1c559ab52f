"""Reading a long log in a process of its own: in the server's, the arithmetic would keep other threads from the
interpreter's lock, and the memory would stay. ``python -m`` of this module is that process."""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import Any, BinaryIO

from orchestrator.domain.value.profile import KernelKinds
from orchestrator.domain.words import untrusted
from orchestrator.domain.words.errors import InvalidRequest, TbdError
from orchestrator.services.intake import log_reading
from orchestrator.services.intake.log_reading import Told

# A judgement: reading so much takes a tenth of a second, and starting a process takes one.
APART_BYTES = 200_000
NICENESS = 5  # further back than the server


def read_politely(file: BinaryIO, rows: BinaryIO, kinds: KernelKinds) -> Told:
    """``log_reading.read``, apart where the log is long. Both files must be real ones.

    Raises:
        TbdError: the process ended before it had an answer.
        border.Malformed, InvalidRequest: as ``read``.
    """
    file.flush()
    if os.fstat(file.fileno()).st_size < APART_BYTES:
        return log_reading.read(file, rows, kinds)
    file.seek(0)
    command = [sys.executable, "-m", __name__, str(rows.fileno()), json.dumps(asdict(kinds))]
    done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE, pass_fds=[rows.fileno()], check=False)
    if done.returncode != 0:
        raise TbdError(f"the process that reads the log ended with status {done.returncode}; nothing was stored")
    kind, answer = pickle.loads(done.stdout)
    if kind == "malformed":
        raise untrusted.Malformed(answer)
    if kind == "problems":
        raise InvalidRequest(answer)
    told: Told = answer
    return told


def main() -> None:
    """Read the log on standard input. Arguments: the descriptor that the rows go to, and the kinds of kernels as JSON.
    A pickle of (kind, answer) goes to standard output. That a log is refused is an answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the server, which waits for this
    os.nice(NICENESS)
    gc.disable()  # what is read makes no cycles, and looking for some again and again takes a third of the time
    answer: tuple[str, Any]
    try:
        with open(int(sys.argv[1]), "wb") as rows:
            answer = ("told", log_reading.read(sys.stdin.buffer, rows, KernelKinds(**json.loads(sys.argv[2]))))
    except untrusted.Malformed as error:
        answer = ("malformed", str(error))
    except InvalidRequest as error:
        answer = ("problems", error.problems)
    pickle.dump(answer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
