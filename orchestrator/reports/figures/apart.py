"""Drawing in a process of its own: it takes 80 MB, which a server would keep. ``python -m`` of this module is that
process: a list of specifications comes in each line of its standard input, as JSON, and their SVGs leave in one of its
standard output. It ends when nobody has asked for a while: whoever moves about in a figure waits for no start.
"""

import json
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock, Timer

from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.figures.vega import Json, drawn

# Judgements. A drawing has some 20 kB; the first of a process takes half a second of a core, each further one a tenth.
MOST_KEPT = 200
MOST_S = 60.0
IDLE_S = 20.0
NICENESS = 5  # further back than the server


class Drawings:
    """SVGs of specifications. What was drawn is kept while there is room; one process draws at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._process: subprocess.Popen[str] | None = None
        self._rest = Timer(0.0, lambda: None)

    def svgs(self, specifications: Sequence[Json]) -> list[str]:
        """The SVG of each.

        Raises:
            TbdError: the process that draws failed, or took longer than ``MOST_S``.
        """
        texts = [json.dumps(one, sort_keys=True) for one in specifications]
        with self._lock:
            lacking = [text for text in dict.fromkeys(texts) if text not in self._kept]
            found = dict(zip(lacking, self._drawn_apart(lacking), strict=True)) if lacking else {}
            for text in texts:
                self._kept[text] = self._kept.pop(text, "") or found[text]
                found[text] = self._kept[text]
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return [found[text] for text in texts]

    def _drawn_apart(self, texts: Sequence[str]) -> list[str]:
        self._rest.cancel()
        if self._process is None:
            command = [sys.executable, "-m", __name__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process, line = self._process, ""
        assert process.stdin is not None
        assert process.stdout is not None
        limit = Timer(MOST_S, process.kill)
        limit.daemon = True
        limit.start()
        try:
            process.stdin.write(f"[{','.join(texts)}]\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            pass
        finally:
            limit.cancel()
        if not line.endswith("\n"):  # it has ended, or is about to
            self._process = None
            process.communicate()
            if process.returncode == -signal.SIGKILL:
                raise TbdError(f"figures were not drawn within {MOST_S:.0f} s")
            raise TbdError(f"the process that draws figures ended with status {process.returncode}")
        self._rest = Timer(IDLE_S, self._rest_now)
        self._rest.daemon = True
        self._rest.start()
        return list(json.loads(line))

    def _rest_now(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.communicate()  # which has no more for it
                self._process = None


def main() -> None:
    """Draw what comes on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the server, which waits for this
    os.nice(NICENESS)
    for line in sys.stdin:
        print(json.dumps([drawn(one, "svg").decode() for one in json.loads(line)]), flush=True)


if __name__ == "__main__":
    main()
