"""Work: amounts by unit, such as {"images": 4}, of a step or of several."""

import collections
from typing import Dict, Iterable

from workers.trainer.base.signatures import Work


def total(works: Iterable[Work]) -> Dict[str, float]:
    """Return the sum of several steps' or ranks' work, unit by unit."""
    found: Dict[str, float] = collections.OrderedDict()
    for amounts in works:
        for unit, amount in amounts.items():
            found[unit] = found.get(unit, 0) + amount
    return found
