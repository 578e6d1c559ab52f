"""Placement: all devices of a topology at once or none, and one run to a node at a time."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import (
    LEAST_FREE_BYTES,
    Held,
    Node,
    NodeShare,
    NodeState,
    NotNow,
    Placement,
    offer,
)
from orchestrator.domain.asked.placement import place as place_on
from orchestrator.domain.asked.plan import Needs, Plan
from orchestrator.domain.expansion.sweep import spec_of
from tests.unit import builders as make


def place(needs: Needs, nodes: Sequence[Node], held: Held, block: int = 1, tries: int = 0) -> Placement | NotNow:
    return place_on(offer(needs, nodes), held, block, tries)


def test_a_plan_gets_its_devices_on_one_node() -> None:
    answer = place(make.plan(topology="1x2").needs, [make.node("b", 2), make.node("a", 2)], Held())
    assert isinstance(answer, Placement)
    assert answer.nodes == ("a",)
    assert [device.id for device in answer.shares[0].devices] == ["cpu:0", "cpu:1"]
    assert Placement.from_json(answer.to_json()) == answer


def test_a_node_that_runs_anything_gets_nothing_more() -> None:
    answer = place(make.plan().needs, [make.node("a", 4)], Held(["a"]))
    assert answer == NotNow("waits for 1 of 1 nodes to become free")


def test_a_topology_that_no_node_has_says_what_the_cluster_has() -> None:
    answer = place(make.plan(topology="1x8", gpu_model="H100").needs, [make.node("a", 4, "cuda")], Held())
    assert answer == NotNow("needs 1 node(s) with 8 cpu device(s) of model H100; the cluster has a: 0")


def test_nodes_that_cannot_carry_or_lack_the_environment_are_passed_over() -> None:
    needs = make.plan(device="cuda", interpreter="pytorch").needs
    old = make.node("a", 1, "cuda", interpreters={"pytorch": "x"}, interpreters_unfit={"pytorch": "driver 470"})
    bare = make.node("b", 1, "cuda", interpreters={"system": None})
    ready = make.node("c", 1, "cuda", interpreters={"pytorch": "x"})
    answers = [place(needs, nodes, Held()) for nodes in ([old, bare, ready], [old, bare])]
    assert [answer.nodes for answer in answers if isinstance(answer, Placement)] == [("c",), ("b",)]
    refused = place(needs, [old], Held())
    assert isinstance(refused, NotNow)
    assert "a: 1, which cannot carry pytorch (driver 470)" in refused.reason


def test_a_gpu_that_is_withheld_is_named_with_the_reason() -> None:
    nodes = [make.node("a", 7, "cuda", gpus_withheld={"GPU-3": "GPU 3: process 4711 computes on it"})]
    answer = place(make.plan(topology="1x8", device="cuda").needs, nodes, Held())
    assert isinstance(answer, NotNow)
    assert answer.reason.endswith("the cluster has a: 7 and 1 withheld (GPU 3: process 4711 computes on it)")


def test_a_drained_or_silent_node_is_waited_for_by_name() -> None:
    nodes = [make.node("a", state=NodeState.DRAINING), make.node("b", state=NodeState.UNREACHABLE)]
    assert place(make.plan().needs, nodes, Held()) == NotNow("waits for nodes: a is draining, b is unreachable")


def test_a_node_that_was_never_heard_of_is_not_counted_as_one_without_devices() -> None:
    nodes = [make.node("a", 0, state=NodeState.UNREACHABLE), make.node("b", 0)]
    told = "needs 1 node(s) with 1 cpu device(s); the cluster has a, which has not answered yet, b: 0"
    assert place(make.plan().needs, nodes, Held()) == NotNow(told)


def test_a_node_without_room_on_its_disk_is_passed_over() -> None:
    nodes = [make.node("a", disk_free_bytes=LEAST_FREE_BYTES - 1), make.node("b", disk_free_bytes=LEAST_FREE_BYTES)]
    answer = place(make.plan().needs, nodes, Held())
    assert isinstance(answer, Placement)
    assert answer.nodes == ("b",)
    assert place(make.plan().needs, nodes, Held(["b"])) == NotNow("waits for 1 of 1 nodes to become free")


def test_where_no_node_has_room_the_reason_names_node_folder_and_what_is_free() -> None:
    nodes = [make.node("a", disk_free_bytes=3 * 2**20 + 5, attempts_folder="/data/agents/a")]
    assert place(make.plan().needs, nodes, Held()) == NotNow(
        "waits for room on disk: node a has 3 MiB free in /data/agents/a, and 64 MiB are needed; remove files there"
    )


def test_a_node_that_does_not_tell_its_room_is_taken_to_have_it() -> None:
    for inventory in ({}, {"disk_free_bytes": None}):
        assert isinstance(place(make.plan().needs, [make.node("a", **inventory)], Held()), Placement)


def test_named_nodes_and_gpu_models_are_kept_to() -> None:
    nodes = [make.node("a", 1, "cuda"), make.node("b", 1, "cuda")]
    by_name = place(make.plan(device="cuda", node_names=("b",)).needs, nodes, Held())
    assert isinstance(by_name, Placement)
    assert by_name.nodes == ("b",)
    assert isinstance(place(make.plan(device="cuda", gpu_model="H100").needs, nodes, Held()), NotNow)
    assert isinstance(place(make.plan(device="cuda", gpu_model="A CUDA").needs, nodes, Held()), Placement)


def test_the_blocks_of_a_sweep_go_around_the_equal_nodes() -> None:
    nodes = [make.node("a"), make.node("b"), make.node("c"), make.node("larger", 4)]

    def met(block: int, topology: str = "1x1", busy: str = "") -> tuple[str, ...]:
        answer = place(make.plan(topology=topology, fabric="ethernet").needs, nodes, Held([busy]), block)
        assert isinstance(answer, Placement)
        return answer.nodes

    assert [met(block) for block in (1, 2, 3, 4)] == [("a",), ("b",), ("c",), ("a",)]
    assert [met(block, "2x1") for block in (1, 2, 3)] == [("a", "b"), ("c", "a"), ("b", "c")]
    assert met(2, busy="b") == ("c",)  # rather than to wait
    assert met(7, "1x2") == ("larger",)


def test_gpus_are_taken_in_turn_and_what_failed_on_some_is_tried_on_others() -> None:
    nodes = [make.node("a", 8, "cuda")]

    def met(topology: str, block: int, tries: int = 0, busy: Sequence[int] = (), device: str = "cuda") -> list[int]:
        held = Held()
        for index in busy:
            held.add(Placement((NodeShare("a", (nodes[0].devices[index],)),)), "device")
        needs = make.plan(topology=topology, device=device, exclusive="device").needs
        answer = place(needs, nodes if device == "cuda" else [make.node("a", 8)], held, block, tries)
        assert isinstance(answer, Placement)
        return [int(one.id.rpartition(":")[2]) for one in answer.shares[0].devices]

    assert [met("1x1", block) for block in (1, 2, 8, 9)] == [[0], [1], [7], [0]]
    assert [met("1x4", block) for block in (1, 2, 3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert [met("1x1", 1, tries) for tries in (0, 1, 2)] == [[0], [1], [2]]
    assert met("1x1", 2, busy=[1]) == [2]  # rather than to wait
    assert met("1x1", 5, device="cpu") == [0]


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5),
    wanted=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), max_size=8),
)
def test_no_device_is_ever_given_twice(sizes: list[int], wanted: list[tuple[int, int]]) -> None:
    nodes = [make.node(f"n{index}", size) for index, size in enumerate(sizes)]
    held: dict[str, set[str]] = {}
    for machines, devices in wanted:
        answer = place(make.plan(topology=f"{machines}x{devices}").needs, nodes, Held(held))
        if isinstance(answer, NotNow):
            continue
        assert len(answer.shares) == machines
        for share in answer.shares:
            ids = {device.id for device in share.devices}
            assert len(ids) == devices
            assert not held.get(share.node)
            held[share.node] = ids


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    wanted=st.lists(st.tuples(st.sampled_from(["1x1", "2x1", "1x2"]), st.booleans(), st.integers(1, 3)), max_size=12),
)
@example(sizes=[2, 2, 2], wanted=[("1x1", True, 1)] * 6)
@example(sizes=[1, 1, 1, 1], wanted=[("1x1", False, 2), ("1x1", False, 1)] * 2)
def test_a_pass_that_remembers_what_is_full_places_as_one_that_does_not(
    sizes: list[int], wanted: list[tuple[str, bool, int]]
) -> None:
    nodes = [make.node(f"n{index}", size) for index, size in enumerate(sizes)]
    kinds = {one[:2]: make.plan(topology=one[0], exclusive="device" if one[1] else "node").needs for one in wanted}
    offers = {kind: offer(needs, nodes) for kind, needs in kinds.items()}
    one_pass, had = Held(), list[tuple[Placement, str]]()
    for *kind, block in wanted:
        needs, fresh = kinds[tuple(kind)], Held()  # type: ignore[index]
        for placement, exclusive in had:
            fresh.add(placement, exclusive)
        answer = place_on(offers[tuple(kind)], one_pass, block)  # type: ignore[index]
        assert answer == place(needs, nodes, fresh, block)
        if isinstance(answer, Placement):
            one_pass.add(answer, needs.exclusive)
            had.append((answer, needs.exclusive))


def test_runs_that_want_their_devices_alone_share_a_node_until_it_is_full() -> None:
    held, nodes = Held(), [make.node("a", 2)]
    needs = make.plan(exclusive="device").needs
    taken = []
    for _ in range(2):
        answer = place(needs, nodes, held)
        assert isinstance(answer, Placement)
        held.add(answer, needs.exclusive)
        taken += [device.id for device in answer.shares[0].devices]
    assert taken == ["cpu:0", "cpu:1"]
    assert place(needs, nodes, held) == NotNow("waits for 1 free device(s) on 1 of 1 nodes")


def test_nobody_joins_a_run_that_has_its_node_and_none_that_shares_one_is_given_a_whole_one() -> None:
    nodes, whole, shared = [make.node("a", 4)], make.plan().needs, make.plan(exclusive="device").needs
    for first, second in ((whole, shared), (shared, whole)):
        held = Held()
        answer = place(first, nodes, held)
        assert isinstance(answer, Placement)
        held.add(answer, first.exclusive)
        assert isinstance(place(second, nodes, held), NotNow)


def test_cpu_devices_and_gpus_of_one_node_are_not_shared_out_at_once() -> None:
    both = make.node("a", 2)
    both = replace(both, devices=(*both.devices, *make.node("a", 2, "cuda").devices))
    held, shared = Held(), "device"
    held.add(_placed(place(make.plan(exclusive=shared).needs, [both], held)), shared)
    assert isinstance(place(make.plan(exclusive=shared, device="cuda").needs, [both], held), NotNow)
    assert isinstance(place(make.plan(exclusive=shared).needs, [both], held), Placement)


def test_while_a_run_waits_for_a_whole_node_nobody_joins_those_on_it() -> None:
    nodes, whole = [make.node("a", 4), make.node("b", 4)], make.plan(node_names=("a",)).needs
    held, shared = Held(), "device"
    held.add(_placed(place(make.plan(exclusive=shared).needs, nodes, held)), shared)
    assert isinstance(place(whole, nodes, held), NotNow)
    held.keep(offer(whole, nodes), "run_1")
    beside = _placed(place(make.plan(exclusive=shared).needs, nodes, held))
    assert beside.nodes == ("b",)
    held.add(beside, shared)
    assert _placed(place(make.plan(exclusive=shared).needs, nodes, held)).nodes == ("b",)  # which nobody waits for
    assert isinstance(place(make.plan(exclusive=shared, node_names=("a",)).needs, nodes, held), NotNow)


def test_waiting_for_a_whole_node_is_waiting_for_who_was_there_longest_and_others_go_on_sharing() -> None:
    nodes, shared = [make.node("a", 4), make.node("b", 4), make.node("c", 4)], make.plan(exclusive="device").needs
    held = Held()
    for node, began in ((nodes[0], 30.0), (nodes[1], 10.0), (nodes[2], 20.0)):
        held.add(_placed(place(shared, [node], held)), "device", began)
    held.keep(offer(make.plan().needs, nodes), "run_1")
    held.keep(offer(make.plan(topology="1x4").needs, nodes), "run_2")  # the next in the queue
    beside = [_placed(place(shared, nodes, held)) for _ in range(2)]
    assert {one.nodes for one in beside} == {("a",)}


def test_of_a_node_that_is_shared_only_the_devices_are_kept_that_are_needed() -> None:
    nodes, shared, held = [make.node("a", 6)], make.plan(exclusive="device").needs, Held()
    for began in (2.0, 1.0, 3.0):
        held.add(_placed(place(shared, nodes, held)), "device", began)
    held.keep(offer(make.plan(topology="1x2", exclusive="device").needs, nodes), "run_1")  # cpu:3 and cpu:4
    held.add(last := _placed(place(shared, nodes, held)), "device")
    assert [device.id for device in last.shares[0].devices] == ["cpu:5"]
    assert place(shared, nodes, held) == NotNow(
        "waits for 1 free device(s) on 1 of 1 nodes; what is free on 1 of them is kept for run_1, which came first"
    )


def _placed(answer: Placement | NotNow) -> Placement:
    assert isinstance(answer, Placement)
    return answer


def test_what_has_its_node_alone_keeps_its_keys() -> None:
    alone, crowded = make.plan(), make.plan(exclusive="device")
    assert "exclusive" not in alone.to_json()
    assert crowded.to_json()["exclusive"] == "device"
    assert crowded.cell_key != alone.cell_key
    assert crowded.needs.key != alone.needs.key
    for plan in (alone, crowded):
        assert Plan.from_json(plan.to_json()) == plan
        assert spec_of(plan, "again").exclusive == plan.exclusive
    keys = {fingerprint(plan, {})["workload_key"] for plan in (alone, crowded)}
    assert len(keys) == 2
