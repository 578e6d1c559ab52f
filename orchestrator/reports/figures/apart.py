"""Drawing in a process of its own: it takes 80 MB, which a server would keep. ``python -m`` of this module is that
process: a list of specifications comes on its standard input, as JSON, and their SVGs leave on its standard output.
"""

import json
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.figures.vega import Json, drawn

# Judgements. A drawing has some 20 kB; the first of a process takes half a second of a core, each further one a tenth.
MOST_KEPT = 200
MOST_S = 60.0
NICENESS = 5  # further back than the server


class Drawings:
    """SVGs of specifications. What was drawn is kept while there is room; one process draws at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, str] = OrderedDict()

    def svgs(self, specifications: Sequence[Json]) -> list[str]:
        """The SVG of each.

        Raises:
            TbdError: the process that draws failed, or took longer than ``MOST_S``.
        """
        texts = [json.dumps(one, sort_keys=True) for one in specifications]
        with self._lock:
            lacking = [text for text in dict.fromkeys(texts) if text not in self._kept]
            found = dict(zip(lacking, _drawn_apart(lacking), strict=True)) if lacking else {}
            for text in texts:
                self._kept[text] = self._kept.pop(text, "") or found[text]
                found[text] = self._kept[text]
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return [found[text] for text in texts]


def _drawn_apart(texts: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", __name__]
    content = f"[{','.join(texts)}]".encode()
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=MOST_S, check=False)
    except subprocess.TimeoutExpired:
        raise TbdError(f"figures were not drawn within {MOST_S:.0f} s") from None
    if done.returncode != 0:
        raise TbdError(f"the process that draws figures ended with status {done.returncode}")
    return list(json.loads(done.stdout))


def main() -> None:
    """Draw what comes on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the server, which waits for this
    os.nice(NICENESS)
    json.dump([drawn(one, "svg").decode() for one in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
