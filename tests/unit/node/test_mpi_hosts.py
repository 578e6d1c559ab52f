"""What mpirun is told of a job, and what it may have started on another node."""

import pytest

from tests.integration.mpi_jobs import OTHER_NODE, mpi_job
from tests.integration.node_attempts import NODE
from workers.node.mpi import hosts as mpi_hosts
from workers.node.mpi.launch import orted_arguments


def contexts(command):
    """The parts of mpirun's command line between colons: one for each rank."""
    found = [[]]
    for word in command:
        if word == ":":
            found.append([])
        else:
            found[-1].append(word)
    return found


def test_each_rank_is_one_application_on_its_own_node_in_the_order_of_ranks():
    found = contexts(mpi_hosts.command(mpi_job((NODE, OTHER_NODE), ranks=4)))
    assert [context[-1] for context in found] == ["worker0", "worker1", "worker2", "worker3"]
    hosts = [context[context.index("--host") + 1] for context in found]
    assert hosts == ["localhost", "localhost", "240.0.0.1", "240.0.0.1"]
    assert all(context[context.index("-np") + 1] == "1" for context in found)


def test_one_node_is_this_host_whatever_it_is_called():
    assert "240.0.0.1" not in mpi_hosts.command(mpi_job((OTHER_NODE,)))


@pytest.mark.parametrize("index", [0, 1, 255, 256, 65535])
def test_a_label_leads_back_to_its_node(index):
    assert mpi_hosts.index_of(mpi_hosts.label(index)) == index


@pytest.mark.parametrize("text", ["240.0.0.0", "127.0.0.1", "node-1", "240.0.0"])
def test_another_name_is_no_node_of_the_job(text):
    with pytest.raises(ValueError):  # noqa: PT011
        mpi_hosts.index_of(text)


def test_orted_is_found_behind_what_a_remote_shell_would_set_up():
    words = [
        "PATH=/x:$PATH ; export PATH ;",
        "/x/orted",
        "-mca",
        "ess",
        '"env"',
        "-mca",
        "orte_node_regex",
        '"a,[3:1]@0(2)"',
    ]
    assert orted_arguments(words) == ["-mca", "ess", "env", "-mca", "orte_node_regex", "a,[3:1]@0(2)"]


def test_nothing_but_orted_is_started_for_mpirun():
    with pytest.raises(ValueError, match="only orted"):
        orted_arguments(["rm", "-rf", "/nowhere"])
