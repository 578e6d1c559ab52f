"""``tbd calibrate`` through a real service, and a training that is then held against it."""

import os
from collections.abc import Callable, Iterator

import pytest

from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service

pytestmark = pytest.mark.framework("pytorch")
QUICK = ("--load", "0.5", "--measure", "0.2", "--shapes", "256,512")


@pytest.fixture(scope="module")
def tbd(tmp_path_factory: pytest.TempPathFactory, python_of: Callable[[str], str]) -> Iterator[Tbd]:
    python_of("pytorch")
    folder = tmp_path_factory.mktemp("calibrate")
    named = os.environ.get("TBD_INTERPRETERS_DIR")
    service = Service(
        folder / "data", **environment(folder, **({"TBD_INTERPRETERS_DIR": named} if named else {}))
    ).start()
    try:
        yield Tbd(folder, service.url)
    finally:
        assert service.stop() == 0


@pytest.mark.after_change
def test_a_device_is_calibrated_and_a_training_is_told_what_it_can_do(tbd: Tbd) -> None:
    row = tbd.json("calibrate", *QUICK)["items"][0]  # the newest, should others have been disturbed
    assert (row["arithmetic"], row["device_kind"], row["devices"]) == ("fp32", "cpu", 1)
    assert set(row["rates"]) == {"256x256x256", "512x512x512"}
    assert row["flops_per_s"] == max(row["rates"].values())
    assert row["loaded_s"] >= 0.5
    listed = tbd("calibrate", "--list").stdout
    assert "fp32" in listed
    assert f"{row['flops_per_s'] / 1e9:,.1f}" in listed
    if not row["valid"]:
        pytest.skip("the machine was disturbed: no training is held against such a calibration")

    train = ("run", "resnet-50", "-f", "pytorch", "--size", "tiny", "--batch", "4", "--max-steps", "60")
    results = tbd.json(*train, "--repeats", "1", "--max-repeats", "1")["items"]
    measured = results[0]
    rate = measured["model_flops_per_s"]
    if rate is None:  # the machine was disturbed
        pytest.skip(str(measured["reasons"]["model_flops_per_s"]))
    assert measured["mfu_calibrated_ratio"]["value"] == pytest.approx(rate["value"] / row["flops_per_s"])
    assert "no data sheet" in measured["reasons"]["mfu_data_sheet_ratio"]
