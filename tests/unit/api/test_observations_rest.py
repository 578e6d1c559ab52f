"""GET /observations: the twelve, judged by what is in the database."""

from tests.unit.api.api_rig import Rig


def by_number(rig: Rig) -> dict[int, dict[str, object]]:
    items = rig.get("/observations")["items"]
    assert len(items) == 12
    return {item["number"]: item for item in items}


def test_an_empty_database_is_not_enough_data(rig: Rig) -> None:
    assert {item["answer"] for item in by_number(rig).values()} == {"not_enough_data"}


def test_they_are_judged_by_the_results_of_all_experiments(rig: Rig) -> None:
    for batch, rate in ((4, 100.0), (8, 150.0), (16, 180.0)):
        experiment = rig.submit(per_device_batch_size=batch)
        rig.complete_all(experiment["id"], [rate - 1, rate, rate + 1])
    found = by_number(rig)
    assert found[1]["answer"] == "holds"
    assert found[1]["told"] == "in 1 of 1 series"
    assert "4: 100/s, 8: 150/s, 16: 180/s" in str(found[1]["numbers"])
    assert found[5]["answer"] == "not_applicable"
    assert found[11]["answer"] == "not_enough_data"
    assert all(item["says"] and item["test"] and item["told"] for item in found.values())
    rig.http.delete(f"/api/v1/experiments/{experiment['id']}")
    assert "16: 180/s" not in str(by_number(rig)[1]["numbers"])


def test_some_experiments_are_judged_by_themselves(rig: Rig) -> None:
    made = []
    for batch, rate in ((4, 100.0), (8, 150.0), (16, 180.0)):
        made.append(rig.submit(per_device_batch_size=batch)["id"])
        rig.complete_all(made[-1], [rate - 1, rate, rate + 1])
    asked = ["&".join(f"experiment={one}" for one in some) for some in (made, made[:1] * 2)]
    three, one = (rig.get(f"/observations?{query}")["items"][0]["answer"] for query in asked)
    assert (three, one) == ("holds", "not_enough_data")
    assert rig.http.get("/api/v1/observations?experiment=exp_gone").status_code == 404


def test_results_of_several_devices_and_invalid_ones_are_left_out(rig: Rig) -> None:
    for batch, rate in ((4, 100.0), (8, 150.0)):
        rig.complete_all(rig.submit(per_device_batch_size=batch)["id"], [rate] * 3)
    rig.complete_all(rig.submit(per_device_batch_size=16, topology="1x2")["id"], [300.0] * 3)
    assert by_number(rig)[1]["answer"] == "not_enough_data"
