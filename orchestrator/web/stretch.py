"""The stretch of a run's time that its page draws: the whole of it, or what the URL asks for (``from``, ``to``)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.web.page import Asked
from orchestrator.web.rest import Refused

ANCHOR = "#over-time"


@dataclass(frozen=True)
class Stretch:
    """Seconds since the first step began; ``to_s`` None: to the end."""

    from_s: float
    to_s: float | None

    @classmethod
    def of(cls, asked: Asked) -> "Stretch":
        """Raises Refused: the URL has no numbers, or they are the wrong way round."""
        try:
            from_s = float(asked.query.get("from", 0.0))
            to_s = float(asked.query["to"]) if "to" in asked.query else None
        except ValueError:
            from_s, to_s = math.nan, None
        if not (0 <= from_s < math.inf and (to_s is None or from_s < to_s < math.inf)):
            problem = {"type": "invalid-request", "detail": "from and to are seconds since the first step, from first"}
            raise Refused(422, problem)
        return cls(from_s, to_s)

    def others(self, asked: Asked, end_s: float) -> Iterator[tuple[str, str]]:
        """(what one may want to see from here, its URL), of a run whose last point is at ``end_s``."""
        to_s = end_s if self.to_s is None else min(self.to_s, end_s)
        from_s = min(self.from_s, to_s)
        part = (to_s - from_s) / 4
        if part <= 0:
            return
        yield "Closer", _url(asked, from_s + part, to_s - part)
        if from_s > 0:
            yield "Earlier", _url(asked, from_s - 2 * part, to_s - 2 * part)
        if to_s < end_s:
            yield "Later", _url(asked, from_s + 2 * part, to_s + 2 * part)
        if from_s > 0 or to_s < end_s:
            yield "From farther away", _url(asked, from_s - 2 * part, to_s + 2 * part)
            yield "All of it", asked.at(**{"from": None, "to": None}) + ANCHOR


def _url(asked: Asked, from_s: float, to_s: float) -> str:
    return asked.at(**{"from": f"{max(from_s, 0.0):.9g}", "to": f"{to_s:.9g}"}) + ANCHOR
