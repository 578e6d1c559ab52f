"""Roles of MXNet's allocations: scripted lists of sizes and times."""

from tests.support.allocation_lists import classes_at_peak
from workers.trainer.frameworks.mxnet import ownership
from workers.trainer.frameworks.mxnet.ownership import Change
from workers.trainer.protocol import MEMORY_CLASSES

# Parts of a build and two steps, microseconds.
PARTS = [
    (0, 100, "build", 0),
    (100, 200, "input", 0),
    *[
        (start + 10000 * step, start + 10000 * step + 2000, name, step)
        for step in (1, 2)
        for start, name in ((0, "input"), (2000, "forward"), (4000, "backward"), (6000, "update"))
    ],
]
BUILT = [("weights", 64), ("weight_gradients", 64)]
UPDATED = [("optimizer_state", 64)]


def classified(*changes, arrays=None):
    made = [Change(at, size) for at, size in changes]
    found = ownership.classify(made, sorted(PARTS), [BUILT, UPDATED], arrays)
    return [(MEMORY_CLASSES[index], delta, step) for _, index, delta, step in found]


def test_what_a_build_leaves_has_the_roles_of_arrays_of_its_size():
    assert classified((1, 64), (2, 64), (3, 8), (4, -8)) == [
        ("weights", 64, 0),
        ("weight_gradients", 64, 0),
        ("other", 8, 0),
        ("other", -8, 0),
    ]


def test_by_time_a_pass_keeps_feature_maps_and_gives_back_workspace():
    found = classified((1, 64), (2, 64), (12250, 100), (12260, 30), (12270, -30), (14450, 70), (16650, 64))
    assert [(name, delta) for name, delta, _ in found[2:]] == [
        ("feature_maps", 100),
        ("workspace", 30),
        ("workspace", -30),
        ("other", 70),
        ("optimizer_state", 64),
    ]


def test_a_workspace_as_large_as_a_weight_that_grows_takes_no_role_away():
    """It was there before the build ended, and is given back for a larger one in the first pass."""
    found = classified((1, 64), (2, 64), (3, 64), (12250, -64), (12251, 128), (16650, 64), (22250, -128), (22251, 256))
    _, most = classes_at_peak(found)
    at_peak, _ = classes_at_peak(found)
    for name in ("weights", "weight_gradients", "optimizer_state"):
        assert at_peak[name] == most[name] == 64, name
    assert sum(delta for name, delta, _ in found if name == "workspace") == 256


def test_what_was_taken_before_the_record_began_takes_no_role_away_either():
    found = classified((1, 64), (2, 64), (12250, -64), (12251, 128), (16650, 64))
    assert [entry for entry in found if entry[1] < 0] == []
    assert classes_at_peak(found)[0]["weights"] == 64


def test_what_the_forward_pass_keeps_is_told_by_how_its_size_grows_with_the_batch():
    found = classified((12250, 100), (12251, 200), (12252, 300), arrays=ownership.Arrays({100}, {200}))
    assert [name for name, _, _ in found] == ["feature_maps", "other", "workspace"]


def test_a_workspace_that_is_first_used_in_a_later_step_is_no_feature_map():
    """A graph without a plan takes its feature maps anew in every step."""
    found = classified((12250, 100), (22200, -100), (22250, 100), (22260, 100), (24500, 300))
    assert [(name, delta) for name, delta, _ in found] == [
        ("feature_maps", 100),
        ("feature_maps", -100),
        ("feature_maps", 100),
        ("workspace", 100),
        ("workspace", 300),
    ]


def test_what_follows_the_end_of_a_number_is_no_workspace_that_has_grown():
    found = classified((12250, 4), (14250, -4), (14260, 500))
    assert found[-1][0] == "other"
