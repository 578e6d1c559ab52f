"""What every use case receives: the adapters behind the ports. ``orchestrator.app`` makes one."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.domain.catalog import Catalog
from orchestrator.domain.ports import Clock, Cluster, Store


@dataclass(frozen=True)
class Context:
    """The adapters, and ``wake``: call it after storing something that the reconciler should look at now."""

    store: Store
    cluster: Cluster
    catalog: Catalog
    clock: Clock
    wake: Callable[[], None]
