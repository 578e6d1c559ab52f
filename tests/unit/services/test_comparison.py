"""Two experiments beside each other."""

from orchestrator.analysis.cell.row import row_of
from orchestrator.services.result.comparison import _compared
from tests.unit import builders as make
from tests.unit.analysis.test_row import a_run


def test_rates_of_other_units_have_no_ratio() -> None:
    images, tokens = (row_of(make.spec(), [a_run(n, unit=unit) for n in (1, 2)]) for unit in ("images/s", "tokens/s"))
    assert _compared(images, images).difference is not None
    found = _compared(images, tokens)
    assert (found.verdict, found.difference) == ("cannot_tell", None)
    assert "images/s and tokens/s" in found.text
