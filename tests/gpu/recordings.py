"""Files of profilers, held one by one against other arithmetic: what ``parsed`` and ``parsed_xplane`` share."""

from pathlib import Path
from typing import Callable, Sequence, Tuple


def hold(held: Callable[[Path], Tuple[str, bool]], paths: Sequence[str]) -> int:
    """Print a line for each file, with what ``held`` says of it and whether all is the same; return the exit status."""
    well = True
    for path in paths:
        said, same = held(Path(path))
        print(("ok         " if same else "NOT OK     ") + said)
        well = well and same
    return 0 if well else 1
