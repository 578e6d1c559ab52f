"""The words of readings: what the analysis asks for by name is a metric that the protocol knows.

``tests/unit/node/test_sampler.py`` holds the other side: what is sampled.
"""

import ast
from pathlib import Path

from workers.trainer import protocol

ANALYSIS = Path(__file__).resolve().parents[2] / "orchestrator" / "analysis"
# Of the module that looks into readings: each takes a metric's name.
ASKING = ("amount", "levels", "mean", "subjects")


def asked(text: str) -> set[str]:
    """Every metric that is asked for by a name in the text itself."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = [call.args[-2:] for call in calls if getattr(call.func, "attr", "") in ASKING]
    found = [one.value for some in names for one in some if isinstance(one, ast.Constant)]
    return {name for name in found if isinstance(name, str) and "_" in name}


def test_what_the_analysis_asks_of_readings_is_in_the_protocol() -> None:
    names = set().union(*(asked(path.read_text(encoding="utf-8")) for path in ANALYSIS.rglob("*.py")))
    assert len(names) > 5
    assert names <= set(protocol.READINGS)
