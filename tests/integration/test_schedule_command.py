"""``tbd schedule`` and a real service: a time that comes, a server that is killed and starts again, a pause, an end."""

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service, until

SPEC = """\
name: night
model: sleep
framework: sleep
per_device_batch_size: 1
size: tiny
repeats: 1
max_repeats: 1
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "data", **environment(tmp_path)).start()
    yield made
    assert made.stop() == 0


def moved_back(folder: Path, identifier: str, by: timedelta) -> None:
    """Have the schedule be one that was looked at last so long ago: nobody waits for a night."""
    engine = create_engine(f"sqlite:///{folder / 'data' / 'tbd.sqlite3'}")
    with engine.begin() as connection:
        moved = "considered_until = considered_until - :by, due_at = considered_until - :by"
        connection.execute(
            text(f"UPDATE schedule SET {moved} WHERE id = :id"), {"by": by.total_seconds(), "id": identifier}
        )
    engine.dispose()


def test_a_schedule_from_its_making_to_its_end(service: Service, tmp_path: Path) -> None:
    tbd = Tbd(tmp_path, service.url)
    (tmp_path / "night.yaml").write_text(SPEC)
    soon = datetime.now(UTC) - timedelta(minutes=1)
    cron = f"{soon.minute} {soon.hour} * * *"
    made = tbd("schedule", "add", "nightly", cron, "night.yaml", "--overlap", "queue", "--label", "night=yes")
    identifier = made.stdout.strip()
    assert "nightly: its first time is " in made.stderr
    assert "of local" in tbd("schedule", "show", "nightly").stdout

    service.stop(signal.SIGKILL)
    moved_back(tmp_path, identifier, timedelta(days=3))
    service.start()
    tbd = Tbd(tmp_path, service.url)

    def fires() -> list[dict[str, Any]]:
        return list(tbd.json("schedule", "show", "nightly")["fires"])

    until(lambda: len(fires()) == 3 and fires()[0]["experiment_state"] == "completed", 60.0)
    newest, *older = fires()
    assert [one["state"] for one in (newest, *older)] == ["submitted", "missed", "missed"]
    shown = tbd("schedule", "show", "nightly").stdout
    assert f"{newest['experiment_id']}  completed" in shown
    assert "no server looked until" in shown
    experiment = tbd.json("show", newest["experiment_id"])
    assert experiment["origin"]["fire_id"] == newest["id"]
    assert experiment["spec"]["labels"] == {"night": "yes"}

    ran = tbd("schedule", "run", "nightly").stdout.strip()
    assert ran == fires()[0]["experiment_id"]
    assert "is paused" in tbd("schedule", "pause", identifier).stderr
    assert "paused" in tbd("schedule", "ls").stdout
    assert "its next time is" in tbd("schedule", "resume", "nightly").stderr
    tbd("schedule", "rm", "nightly")
    assert tbd.json("schedule", "ls")["items"] == []
    assert tbd.json("show", ran)["origin"]["schedule_id"] == identifier
    assert [one["action"] for one in tbd.json("audit")["items"]][:1] == ["schedule remove"]


@pytest.mark.after_change
def test_what_is_wrong_is_told_with_the_line_of_the_file(service: Service, tmp_path: Path) -> None:
    tbd = Tbd(tmp_path, service.url)
    (tmp_path / "night.yaml").write_text(SPEC.replace("size: tiny", "size: little"))
    refused = tbd("schedule", "add", "nightly", "@daily", "night.yaml", code=2).stderr
    assert "night.yaml:5: size" in refused
    wrong = tbd("schedule", "add", "nightly", "0 25 * * *", "sleep", "-f", "sleep", "--timezone", "Mars", code=2).stderr
    assert "cron: hour: '25' is none of 0 to 23" in wrong
    assert "timezone: there is no time zone 'Mars'" in wrong
    assert "tbd schedule ls" in tbd("schedule", "show", "nightly", code=2).stderr
    assert "did you mean resume?" in tbd("schedule", "resum", "nightly", code=2).stderr
    assert "no schedules yet" in tbd("schedule", "ls").stderr


@pytest.mark.after_change
def test_a_schedule_is_edited_and_what_is_wrong_changes_nothing(service: Service, tmp_path: Path) -> None:
    tbd = Tbd(tmp_path, service.url)
    (tmp_path / "night.yaml").write_text(SPEC)
    tbd("schedule", "add", "nightly", "0 2 * * *", "night.yaml", "--label", "night=yes")

    def now(name: str = "nightly") -> dict[str, Any]:
        found: dict[str, Any] = tbd.json("schedule", "show", name)
        return found

    before = now()
    told = tbd(
        "schedule", "edit", "nightly", "--cron", "30 1 * * *", "--zone", "Asia/Tokyo", "--overlap", "queue"
    ).stderr
    assert "nightly is changed (cron, timezone, overlap); its next time is " in told
    assert "01:30:00 +0900" in told
    assert now() == before | {
        "cron": "30 1 * * *",
        "timezone": "Asia/Tokyo",
        "overlap": "queue",
        "upcoming": now()["upcoming"],
    }
    tbd("schedule", "pause", "nightly")
    assert "it is paused" in tbd("schedule", "edit", "nightly", "--jitter", "5").stderr
    tbd("schedule", "edit", "nightly", "--repeats", "4", "--max-repeats", "6", "--global-batch", "8")
    assert now()["spec"] == before["spec"] | {
        "repeats": 4,
        "max_repeats": 6,
        "global_batch_size": 8,
        "per_device_batch_size": None,
    }
    (tmp_path / "other.yaml").write_text(SPEC.replace("name: night", "name: other"))
    assert (
        "changed (name, spec)" in tbd("schedule", "edit", "nightly", "--spec", "other.yaml", "--rename", "later").stderr
    )
    assert (now("later")["spec"]["name"], now("later")["spec"]["labels"]) == ("other", {})
    assert "later is as it was" in tbd("schedule", "edit", "later", "--overlap", "queue").stderr
    was = now("later")
    (tmp_path / "bad.yaml").write_text(SPEC.replace("size: tiny", "size: little"))
    wrong = {
        "bad.yaml:5: size": ("--spec", "bad.yaml"),
        "size/0: Input should be 'full', 'small' or 'tiny'": ("--size", "little"),
        "hour: '25' is none of 0 to 23": ("--cron", "0 25 * * *"),
        "there is no time zone 'Mars'": ("--zone", "Mars"),
        "say what is to change": (),
        "'sometimes' is none of skip, one, all": ("--misfire", "sometimes"),
    }
    for words, change in wrong.items():
        assert words in tbd("schedule", "edit", "later", *change, code=2).stderr
    assert "tbd schedule ls" in tbd("schedule", "edit", "nightly", "--jitter", "1", code=2).stderr
    assert now("later") == was


@pytest.mark.after_change
def test_an_embedded_server_leaves_schedules_alone(tmp_path: Path) -> None:
    """What it submitted would be cut off when the command ends."""
    with_server = Service(tmp_path / "data", **environment(tmp_path)).start()
    tbd = Tbd(tmp_path, with_server.url)
    (tmp_path / "night.yaml").write_text(SPEC)
    identifier = tbd("schedule", "add", "nightly", "* * * * *", "night.yaml").stdout.strip()
    assert with_server.stop() == 0
    moved_back(tmp_path, identifier, timedelta(minutes=5))
    alone = Tbd(tmp_path, None)
    alone("run", "night.yaml")
    engine = create_engine(f"sqlite:///{tmp_path / 'data' / 'tbd.sqlite3'}")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM fire")).scalar() == 0
        assert connection.execute(text("SELECT count(*) FROM experiment")).scalar() == 1
    engine.dispose()
