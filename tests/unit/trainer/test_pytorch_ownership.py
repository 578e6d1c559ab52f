"""Whose each allocation of PyTorch is, with scripted ones."""

from workers.trainer.frameworks.allocation_profile import Note
from workers.trainer.frameworks.pytorch.ownership import Change, Part, classify
from workers.trainer.protocol import MEMORY_CLASSES

PARTS = [
    Part(0, 100, "build", 0),
    Part(50, 60, "input", 0),
    Part(100, 110, "input", 1),
    Part(110, 120, "forward", 1),
    Part(120, 130, "backward", 1),
    Part(130, 140, "update", 1),
    Part(140, 150, "input", 2),
    Part(150, 160, "forward", 2),
]


def change(at, address, size, until, thread=1):
    return Change(at, address, size, until, thread)


def found(changes, notes=()):
    """The list with the classes' names."""
    return [(MEMORY_CLASSES[index], size, step) for index, size, step in classify(changes, list(notes), PARTS)]


def test_roles_come_before_time():
    changes = [change(10, 0xA, 400, 12), change(122, 0xB, 400, 125), change(132, 0xC, 400, 133)]
    notes = [
        Note(128, {0xA: [("weights", 400)], 0xB: [("weight_gradients", 400)]}),
        Note(138, {0xA: [("weights", 400)], 0xB: [("weight_gradients", 400)], 0xC: [("optimizer_state", 400)]}),
    ]
    assert found(changes, notes) == [("weights", 400, 0), ("weight_gradients", 400, 1), ("optimizer_state", 400, 1)]


def test_an_address_that_was_used_before_is_another_block():
    changes = [change(112, 0xA, 64, 113), change(121, 0xA, -64, None), change(122, 0xA, 400, 125)]
    notes = [Note(128, {0xA: [("weight_gradients", 400)]})]
    assert found(changes, notes) == [("feature_maps", 64, 1), ("feature_maps", -64, 1), ("weight_gradients", 400, 1)]


def test_what_an_operator_gives_back_before_it_returns_is_its_workspace():
    changes = [change(111, 0xA, 64, 115), change(114, 0xA, -64, 115)]
    assert found(changes) == [("workspace", 64, 1), ("workspace", -64, 1)]


def test_what_outlives_its_operator_belongs_to_the_part_of_the_step():
    changes = [
        change(55, 0x1, 8, 56),
        change(70, 0x2, 8, 71),
        change(101, 0x3, 8, 102),
        change(111, 0x4, 8, 112),
        change(121, 0x5, 8, 122),
        change(126, 0x4, -8, None),
        change(131, 0x6, 8, 132),
    ]
    assert [name for name, _, _ in found(changes)] == [
        "input",
        "other",
        "input",
        "feature_maps",
        "other",
        "feature_maps",
        "other",
    ]


def test_what_a_forward_pass_takes_and_the_step_does_not_give_back_is_no_feature_map():
    changes = [change(111, 0xA, 8, 112), change(113, 0xB, 8, 114), change(151, 0xA, -8, None)]
    assert found(changes) == [("other", 8, 1), ("other", 8, 1), ("other", -8, 2)]


def test_a_block_that_stores_several_is_split_and_its_rounding_is_other():
    changes = [change(10, 0xA, 512, 12), change(135, 0xA, -512, None)]
    notes = [Note(60, {0xA: [("weights", 40), ("weights", 400)]})]
    assert found(changes, notes) == [("weights", 440, 0), ("other", 72, 0), ("weights", -440, 1), ("other", -72, 1)]


def test_the_end_of_what_was_taken_before_is_left_out():
    assert found([change(10, 0xA, -64, None)]) == []


def test_an_end_that_is_told_after_the_next_use_of_its_address_ends_the_block_before():
    """Threads share addresses, and one may be held up between giving a block back and telling so."""
    changes = [change(121, 0xA, 400, None), change(131, 0xA, 400, None), change(132, 0xA, -400, None, thread=2)]
    notes = [Note(128, {0xA: [("weight_gradients", 400)]}), Note(138, {0xA: [("weight_gradients", 400)]})]
    expected = [("weight_gradients", 400, 1), ("weight_gradients", -400, 1), ("weight_gradients", 400, 1)]
    assert found(changes, notes) == expected


def test_an_end_that_nobody_records_ends_its_block_with_the_next_use_of_the_address_and_no_other_block():
    """Threads of an exchange may be the last to hold what a forward pass took for it: that is no feature map."""
    changes = [
        change(111, 0xA, 4, 112),
        change(113, 0xB, 8, 114),
        change(121, 0xA, 16, 125),
        change(122, 0xA, -16, 125),
    ]
    changes.append(change(126, 0xB, -8, None))
    assert found(changes) == [
        ("other", 4, 1),
        ("feature_maps", 8, 1),
        ("other", -4, 1),
        ("workspace", 16, 1),
        ("workspace", -16, 1),
        ("feature_maps", -8, 1),
    ]


def test_a_feature_map_whose_end_is_told_late_is_one():
    changes = [change(111, 0xA, 4, 112), change(121, 0xA, 16, None), change(122, 0xA, -4, None, thread=2)]
    assert found(changes) == [("feature_maps", 4, 1), ("feature_maps", -4, 1), ("other", 16, 1)]
