"""What netbenches found, as it is answered."""

from orchestrator.api.views.common import Time, View, rfc3339
from orchestrator.domain.measurement import Transfer
from orchestrator.domain.stored import StoredTransfer


class ExchangeView(View):
    """How long messages of one size took. ``bytes``: of the message, or of one rank's vector; durations are one way
    (half of a round trip) or one all-reduce, of the slowest rank; ``algorithm_bytes_per_s`` is bytes over the median,
    ``bus_bytes_per_s`` for an all-reduce 2 (n - 1) / n times as much. ``valid``: whether the run was."""

    experiment_id: str
    run_id: str
    created_at: Time
    valid: bool
    topology: str
    fabric: str | None
    device: str
    nodes: list[str]
    operation: str
    library: str
    bytes: int
    world_size: int
    ranks: list[int]
    busy_cores: bool
    repetitions: int
    duration_min_s: float
    duration_p50_s: float
    duration_mean_s: float
    duration_p90_s: float
    duration_max_s: float
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float
    code_version: str


def exchange_view(stored: StoredTransfer) -> ExchangeView:
    measured = {name: getattr(stored.transfer, name) for name in Transfer.__dataclass_fields__}
    return ExchangeView(
        experiment_id=stored.experiment_id,
        run_id=stored.run_id,
        created_at=rfc3339(stored.created_at),
        valid=stored.valid,
        topology=stored.topology,
        fabric=stored.fabric,
        device=stored.device,
        nodes=list(stored.nodes),
        code_version=stored.code_version,
        **measured | {"ranks": list(stored.transfer.ranks)},
    )
