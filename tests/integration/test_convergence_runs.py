"""Training to convergence through a real service: what a person gets who submits a spec and looks at its results."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from tests.integration.service_rig import Tbd, service

SPEC = {
    "name": "reaching",
    "model": "resnet-50",
    "framework": "pytorch",
    "per_device_batch_size": 10,
    "size": "tiny",
    "data": "photographs",
    "mode": "convergence",
    "evaluate_every": 3,
    "repeats": 1,
    "timeout_s": 110.0,
}

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]


@pytest.mark.usefixtures("photographs")
def test_a_run_reaches_its_target_or_says_by_how_much_it_missed_it(tmp_path):
    with service(tmp_path) as url:
        tbd = Tbd(tmp_path, url)
        reached = results(tbd, tmp_path, target=0.05, max_steps=60)
        assert 0.05 <= reached["quality_best"]["value"] <= 1.0
        assert 0 < reached["time_to_target_s"]["value"] <= reached["time_to_target_elapsed_s"]["value"]
        assert (reached["axes"]["mode"], reached["axes"]["target"]) == ("convergence", 0.05)
        # 600 photographs in batches of 10: 3.6 steps.
        missed = results(tbd, tmp_path, target=1.0, max_epochs=0.06)
        assert missed["time_to_target_s"] is None
        assert "the target of 1 was not reached in 4 steps" in missed["reasons"]["time_to_target_s"]
        assert missed["throughput"]["value"] > 0
        shown = tbd("show", missed["run_ids"][0]).stdout
        assert "an epoch has 600 samples: the budget of 0.06 was 4 steps" in shown
        assert "top_1_accuracy_ratio on samples that are kept apart (higher is better, the target is 1)" in shown
        assert "not reached" in tbd("results", missed["experiment_id"]).stdout
        tbd("show", missed["experiment_id"], "--figure", str(tmp_path / "curve.svg"))
        assert ElementTree.fromstring((tmp_path / "curve.svg").read_text()).tag.endswith("svg")


def results(tbd, folder, **changes):
    """The only row of an experiment that was carried out to its end."""
    path = folder / "spec.yaml"
    path.write_text(json.dumps({**SPEC, **changes}))
    (row,) = json.loads(tbd("run", str(path), "--json").stdout)["items"]
    return row
