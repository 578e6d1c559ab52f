"""What netbenches found, as it is answered."""

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.runs.stored import StoredTransfer


@fields_of(StoredTransfer)
class ExchangeView(View):
    """How long messages of one size took. ``bytes``: of the message, or of one rank's vector; durations are one way
    (half of a round trip) or one all-reduce, of the slowest rank; ``algorithm_bytes_per_s`` is bytes over the median,
    ``bus_bytes_per_s`` for an all-reduce 2 (n - 1) / n times as much. ``valid``: whether the run was."""

    created_at: Time
