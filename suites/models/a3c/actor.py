"""The actor: it plays a share of its rank's games (``suites.datasets.games.players``)."""

from suites.datasets.games.players import serve

__all__ = ["serve"]
