"""What is made of a profiler's items, with scripted ones; which those of a framework are is tested by its traces."""

import pytest

from workers.trainer.frameworks import kernel_table
from workers.trainer.frameworks.kernel_table import Item, Recording


def test_of_a_long_timeline_the_longest_items_are_kept_in_order():
    items = [Item("short", "a", 10 * n, 10 * n + 1, 1) for n in range(kernel_table.MOST_SPANS)]
    items.append(Item("long", "b", 555, 564, 9))
    found = kernel_table.table(Recording(items, [items], (0, 10**6), 2.0, 1e-6), 1, "scripted")
    assert {name: calls for name, calls, _ in found["rows"]} == {"short": kernel_table.MOST_SPANS, "long": 1}
    spans = found["spans"]
    assert len(spans["items"]) == kernel_table.MOST_SPANS
    starts = [item[2] for item in spans["items"]]
    assert starts == sorted(starts)
    (longest,) = (item for item in spans["items"] if spans["names"][item[0]] == "long")
    assert longest[1:] == [spans["lanes"].index("b"), pytest.approx(2.000555), pytest.approx(9e-6)]


def test_what_reaches_beyond_the_steps_is_active_within_them_only():
    busy = [Item("a", "", -5, 10, 15), Item("b", "", 95, 120, 25)]
    found = kernel_table.activity(Recording(busy, [busy, []], (0, 100), 0.0, 1.0))
    assert found == {"active_s": 7.5, "elapsed_s": 100.0, "method": "operator-union"}


@pytest.mark.parametrize("active", [[], [[], []]])
def test_a_profiler_that_saw_nothing_run_does_not_say_that_nothing_ran(active):
    """A GPU whose profiling library is missing: a trace has no plane of it, or an empty one."""
    recording = Recording([], active, (0, 100), 0.0, 1.0)
    found = kernel_table.activity(recording, gpu=True)
    assert found == {"active_s": None, "elapsed_s": 100.0, "method": "kernel-union"}
    assert kernel_table.table(recording, 2, "scripted")["active_s"] is None
