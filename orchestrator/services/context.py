"""What every use case receives: the adapters behind the ports. ``orchestrator.app`` makes one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.ports import Clock, Cluster, Store
from orchestrator.services.kept import Kept
from orchestrator.services.news import News
from orchestrator.services.pulse import Pulse


@dataclass(frozen=True)
class Context:
    """The adapters; ``wake``: call it after storing something that the reconciler should look at now; ``news`` for
    those who show what was stored; ``pulse``: whether anybody looks; ``kept``: what was computed for looks;
    ``deadline_s``: until everything of an experiment whose spec does not say has to be over."""

    store: Store
    cluster: Cluster
    catalog: Catalog
    clock: Clock
    wake: Callable[[], None]
    news: News = field(default_factory=News)
    pulse: Pulse = field(default_factory=Pulse)
    kept: Kept = field(default_factory=Kept)
    deadline_s: float | None = None
