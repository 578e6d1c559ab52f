"""Which class each block of TensorFlow's allocators belongs to."""

from collections import namedtuple

from workers.trainer.frameworks.allocation_profile import Note
from workers.trainer.frameworks.tensorflow.ownership import Gradient, classify
from workers.trainer.protocol import MEMORY_CLASSES

Change = namedtuple("Change", "at allocator address size requested operator until")
# The build from 0, steps from 10 and from 20.
STEPS = [0, 10, 20]


def taken(at, address, requested, operator="", size=None, until=None):
    return Change(at, "bfc", address, requested if size is None else size, requested, operator, until)


def given_back(at, address, size=256):
    return Change(at, "bfc", address, -size, 0, "", None)


def classes(changes, notes=(), gradients=(), copies=()):
    """(class, bytes, step) of each entry, in order of time."""
    changes = sorted(changes, key=lambda change: change.at)
    return [
        (MEMORY_CLASSES[index], size, step) for index, size, step in classify(changes, notes, gradients, copies, STEPS)
    ]


def test_what_is_looked_up_by_address_has_that_role_and_rounding_is_other():
    found = classes([taken(1, 7, 100, size=256)], [Note(5, {7: ("weights", 0)})])
    assert found == [("weights", 100, 0), ("other", 156, 0)]


def test_an_address_that_is_used_again_is_another_block():
    changes = [taken(1, 7, 4), given_back(2, 7, 4), taken(3, 7, 4)]
    found = classes(changes, [Note(5, {7: ("input", 0)})])
    assert found == [("other", 4, 0), ("other", -4, 0), ("input", 4, 0)]


def test_a_weight_that_is_copied_while_it_is_read_is_never_counted_twice():
    changes = [taken(1, 7, 4), taken(12, 8, 4, "tbd.update/Apply"), given_back(13, 7, 4)]
    found = classes(changes, [Note(5, {7: ("weights", 0)}), Note(19, {8: ("weights", 0)})])
    assert found == [
        ("weights", 4, 0),
        ("workspace", 4, 1),
        ("weights", -4, 1),
        ("workspace", -4, 1),
        ("weights", 4, 1),
    ]


def test_the_gradient_of_a_weight_is_what_its_operator_takes_in_that_size_once_per_step():
    name = "gradient_tape/a/Filter"
    changes = []
    for begin in (10, 20):
        changes += [
            taken(begin + 1, begin, 64, name, until=begin + 5),
            taken(begin + 2, begin + 1, 8, name, until=begin + 5),
        ]
        changes += [taken(begin + 3, begin + 2, 8, name, until=begin + 5), given_back(begin + 4, begin, 64)]
        changes += [given_back(begin + 6, begin + 1, 8), given_back(begin + 7, begin + 2, 8)]
    found = classes(changes, gradients=[Gradient(name, 8, 6, ())])
    assert found.count(("weight_gradients", 6, 1)) == found.count(("weight_gradients", 6, 2)) == 1
    assert found.count(("workspace", 64, 1)) == 1
    assert sum(size for _, size, _ in found) == 0


def test_what_outlives_its_operator_in_the_forward_pass_is_a_feature_map_if_the_step_gives_it_back():
    changes = [
        taken(11, 1, 4, "conv1/Conv2D", until=12),
        taken(11.5, 2, 8, "conv1/Conv2D", until=12),
        given_back(11.8, 2, 8),
        taken(13, 3, 16, "bn1/Statistic", until=14),
        taken(15, 4, 32, "gradient_tape/conv1/Input", until=16),
        given_back(17, 1, 4),
        given_back(18, 4, 32),
        given_back(25, 3, 16),
    ]
    taken_as = [(name, size) for name, size, _ in classes(changes) if size > 0]
    assert taken_as == [("feature_maps", 4), ("workspace", 8), ("other", 16), ("other", 32)]


def test_what_optimising_the_graph_computes_once_is_no_feature_map():
    changes = [
        taken(11, 1, 4, "ConstantFolding/conv1/Pad"),
        given_back(12, 1, 4),
        taken(13, 2, 4, "Fill"),
        given_back(14, 2, 4),
    ]
    assert {name for name, _, _ in classes(changes)} == {"other"}


def test_ends_of_what_was_taken_before_the_record_are_left_out():
    assert classes([given_back(3, 99)]) == []


def test_the_copy_of_a_variable_whose_rows_are_looked_up_is_no_feature_map():
    name = "embedding/Gather"
    changes = [taken(11, 1, 48, name), taken(12, 2, 8, name), given_back(17, 1, 48), given_back(18, 2, 8)]
    found = classes(changes, copies={(name, 48)})
    assert [one[0] for one in found] == ["other", "feature_maps", "other", "feature_maps"]


def test_a_gradient_that_is_added_up_in_place_is_the_summand_that_stays_longest():
    changes = [
        taken(11, 1, 8, "gradient_tape/output/MatMul", until=12),
        taken(13, 2, 8, "gradient_tape/table/UnsortedSegmentSum", until=14),
        given_back(15, 2, 8),
        given_back(17, 1, 8),
    ]
    summands = ("gradient_tape/output/MatMul", "gradient_tape/table/UnsortedSegmentSum")
    found = classes(changes, gradients=[Gradient("tbd.backward/AddN", 8, 8, summands)])
    assert found == [("weight_gradients", 8, 1), ("other", 8, 1), ("other", -8, 1), ("weight_gradients", -8, 1)]


def test_a_sum_that_takes_memory_of_its_own_is_the_gradient_and_its_summands_are_not():
    changes = [
        taken(11, 1, 8, "gradient_tape/output/MatMul", until=12),
        taken(13, 2, 8, "tbd.backward/AddN", until=14),
        given_back(15, 1, 8),
        given_back(17, 2, 8),
    ]
    found = classes(changes, gradients=[Gradient("tbd.backward/AddN", 8, 8, ("gradient_tape/output/MatMul",))])
    assert found == [("other", 8, 1), ("weight_gradients", 8, 1), ("other", -8, 1), ("weight_gradients", -8, 1)]
