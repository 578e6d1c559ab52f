"""What is stored of an analysis comes back as it was."""

import json
import math
from typing import Any

import pytest

from orchestrator.db.reading.rows import analysis_of, read, to_text
from orchestrator.domain.value.measurement import Analysis, Validity
from orchestrator.domain.value.timed_intervals import Series
from orchestrator.domain.words.errors import DamagedRow
from workers.trainer import protocol

MEASURED = Analysis(Validity(), series=Series.of([0.5, 0.25, 0.125], [4.0, 4.0, 4.0], [1, 1, 1]))


def test_an_analysis_with_its_series_is_read_as_it_was_written():
    assert analysis_of(to_text(MEASURED.to_json())) == MEASURED


DEEP: list[Any] = []
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [
        1e-07,
        5e-324,
        1e16,
        -0.0,
        2**70,
        math.nan,
        [math.inf, -math.inf],
        'é\u2028\x7f\0"\\/😀',
        "\ud800",
        (1, True, None),
        DEEP,
    ],
)
def test_json_is_written_in_ascii_as_all_of_tbd_writes_it(value):
    text = to_text({"value": value})
    assert text.isascii()
    assert json.loads(text) == json.loads(protocol.to_json({"value": value}))


@pytest.mark.parametrize("wrong", [{"works": "four"}, {"steps": [[]]}, {"n": None}, {"durations_s": {}}])
def test_a_series_that_nobody_can_have_measured_is_damage(wrong):
    stored = MEASURED.to_json()
    text = json.dumps({**stored, "series": {**stored["series"], **wrong}})
    with pytest.raises(DamagedRow):
        read("run", "run_1", "exp_1", lambda: analysis_of(text))
