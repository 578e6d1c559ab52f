"""No test begins after ``TBD_TESTS_END`` (seconds since the epoch); those that did not are named at the end of the run.

One that is under way then goes on, to its own limit at the longest.
"""

import os
import time
from collections import Counter
from typing import Any

import pytest

END = "TBD_TESTS_END"
_WHY = "not begun: the time is up"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() >= float(os.environ.get(END) or "inf"):
        pytest.skip(_WHY)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = terminalreporter.getreports("skipped")
    left = Counter(one.nodeid.partition("::")[0] for one in skipped if _WHY in str(one.longrepr))
    if left:
        terminalreporter.write_line(f"{left.total()} tests were not begun, because the time was up:")
    for file, count in sorted(left.items()):
        terminalreporter.write_line(f"  {count} of {file}")
