"""What calibrations found, as it is answered."""

from orchestrator.api.views.common import Time, View, rfc3339
from orchestrator.domain.calibration import Calibration
from orchestrator.domain.stored import StoredCalibration
from orchestrator.services import calibrate


class CalibrationView(View):
    """What a device did at best. ``flops_per_s``: of the median repetition of the best ``shape`` (m, n, k);
    ``rates``: of every shape; ``devices``: how many were under load at once; ``previous_flops_per_s``: of the valid
    calibration before, and by ``change_ratio`` it was faster now (slower: negative); ``changed``: by more than two
    calibrations of a device usually differ. ``valid``: whether the run was."""

    experiment_id: str
    run_id: str
    created_at: Time
    valid: bool
    node: str
    device_id: str
    device_kind: str
    device_name: str
    cores: int
    arithmetic: str
    flops_per_s: float
    previous_flops_per_s: float | None
    change_ratio: float | None
    changed: bool
    shape: list[int]
    repetitions: int
    spread_ratio: float
    loaded_s: float
    devices: int
    library: str
    rates: dict[str, float]
    code_version: str


def calibration_view(stored: StoredCalibration) -> CalibrationView:
    measured = {name: getattr(stored.calibration, name) for name in Calibration.__dataclass_fields__}
    return CalibrationView(
        experiment_id=stored.experiment_id,
        run_id=stored.run_id,
        created_at=rfc3339(stored.created_at),
        valid=stored.valid,
        previous_flops_per_s=stored.previous_flops_per_s,
        change_ratio=calibrate.change_ratio(stored),
        changed=calibrate.has_changed(stored),
        code_version=stored.code_version,
        **measured | {"shape": list(stored.calibration.shape), "rates": dict(stored.calibration.rates)},
    )
