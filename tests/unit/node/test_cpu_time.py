"""Processor time of processes that come and go, from what the kernel said of them at two moments."""

from workers.node.processes import ProcessId, Stat
from workers.node.telemetry import procfs
from workers.node.telemetry.cpu_time import FamilyTime, OwnTime

AGENT, TRAINER, LOADER = 10, 20, 30


def living(**ticks):
    """Stats of a trainer (``trainer=(own, waited)``) and its loader, whose parents are the agent and the trainer."""
    parents = {"trainer": (TRAINER, AGENT), "loader": (LOADER, TRAINER)}
    found = {}
    for name, (own, waited) in ticks.items():
        pid, parent = parents[name]
        found[ProcessId(pid, pid)] = Stat("S", parent, own, pid, 1, waited)
    return found


def ticks(seconds):
    return round(seconds * procfs.TICKS_PER_S)


def test_all_that_a_process_has_used_counts_when_it_is_seen_first_and_then_what_it_adds():
    family = FamilyTime()
    assert ticks(family.since(living(trainer=(50, 0)))) == 50
    assert ticks(family.since(living(trainer=(70, 0), loader=(5, 0)))) == 25


def test_a_child_that_came_and_went_unseen_is_counted_by_its_parent():
    family = FamilyTime()
    family.since(living(trainer=(50, 0)))
    assert ticks(family.since(living(trainer=(50, 30)))) == 30


def test_a_child_that_ended_is_counted_once():
    family = FamilyTime()
    family.since(living(trainer=(50, 0), loader=(20, 0)))
    assert ticks(family.since(living(trainer=(50, 25)))) == 5


def test_what_was_known_of_a_process_whose_parent_is_not_of_the_family_is_kept():
    family = FamilyTime()
    family.since(living(trainer=(50, 0)))
    assert family.since({}) == 0.0
    assert ticks(family.since(living(loader=(4, 0)))) == 4


def test_a_process_that_ended_while_the_others_were_read_is_made_up_for():
    family = FamilyTime()
    family.since(living(trainer=(50, 0), loader=(20, 0)))
    assert family.since(living(trainer=(50, 0))) == 0.0  # its parent was read before it had waited
    assert ticks(family.since(living(trainer=(60, 20)))) == 10


def test_of_tbds_own_processes_only_what_they_add_counts_and_never_their_children():
    own = OwnTime()
    assert own.since(living(trainer=(500, 90))) == 0.0
    assert ticks(own.since(living(trainer=(507, 900)))) == 7


def test_of_one_that_began_since_the_last_look_all_counts():
    own = OwnTime()
    own.since({}, None)
    assert ticks(own.since(living(trainer=(8, 0), loader=(3, 0)), began_after_ticks=25)) == 3
