"""How Horovod's ranks are told who they are."""

from workers.trainer.frameworks import horovod_gloo


def job_of(*nodes):
    processes = [{"name": "scheduler", "role": "scheduler", "node": nodes[0], "ranks": []}]
    processes += [
        {"name": f"worker{rank}", "role": "worker", "node": node, "ranks": [rank]} for rank, node in enumerate(nodes)
    ]
    names = list(dict.fromkeys(nodes))
    places = [
        {"name": name, "address": f"10.0.0.{index}", "interface": "eth0", "ports": {"control": 1, "framework": 2}}
        for index, name in enumerate(names)
    ]
    return {"processes": processes, "nodes": places, "plan": {"timeout_s": 3600}}


def places_of(*nodes):
    keys = ("hostname", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    slots = horovod_gloo.slots(job_of(*nodes))
    return [tuple(slots[rank][key] for key in keys) for rank in sorted(slots)]


def test_ranks_are_counted_on_their_host_and_across_hosts():
    assert places_of("a", "a", "b", "b") == [
        ("host0", 0, 4, 0, 2, 0, 2),
        ("host0", 1, 4, 1, 2, 0, 2),
        ("host1", 2, 4, 0, 2, 1, 2),
        ("host1", 3, 4, 1, 2, 1, 2),
    ]


def test_hosts_with_unequal_numbers_of_ranks_meet_where_they_have_the_same_place():
    assert places_of("a", "a", "b") == [
        ("host0", 0, 3, 0, 2, 0, 2),
        ("host0", 1, 3, 1, 2, 0, 1),
        ("host1", 2, 3, 0, 1, 1, 2),
    ]


def test_a_worker_is_told_where_the_rendezvous_is_and_that_every_wait_ends():
    job = job_of("a", "b")
    found = horovod_gloo.environment(job, job["processes"][2])
    assert found["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.0"
    assert found["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "2"
    assert found["HOROVOD_RANK"] == "1"
    assert found["HOROVOD_CONTROLLER"] == found["HOROVOD_CPU_OPERATIONS"] == "gloo"
    assert found["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "3600"
    assert 0 < int(found["HOROVOD_STALL_CHECK_TIME_SECONDS"]) < int(found["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"])
    assert set(map(type, found.values())) == {str}
