"""Work: amounts by unit, such as {"images": 4}, of a step or of several."""

import collections


def total(works):
    """Return the sum of several steps' or ranks' work, unit by unit."""
    found = collections.OrderedDict()
    for amounts in works:
        for unit, amount in amounts.items():
            found[unit] = found.get(unit, 0) + amount
    return found
