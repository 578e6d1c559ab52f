"""``tbd db check`` prints each damaged row with the way out; 0 when there is none."""

import json
import sqlite3

import pytest

from orchestrator.cli.main import main
from orchestrator.db.store import SqlStore
from tests.contract import store_scenes as scene


@pytest.fixture
def database(tmp_path, monkeypatch):
    path = tmp_path / "tbd.sqlite3"
    monkeypatch.setenv("TBD_DATABASE_URL", f"sqlite:///{path}")
    store = SqlStore(f"sqlite:///{path}")
    new, _ = scene.submitted(store)
    store.close()
    return path, new.id


def test_a_sound_database_is_said_to_be_so(database, capsys):
    assert main(["db", "check"]) == 0
    assert "as this version of tbd" in capsys.readouterr().out


def test_each_damaged_row_is_printed_with_the_way_out(database, capsys):
    path, identifier = database
    with sqlite3.connect(path) as connection:
        labels = ('"labels":{}', '"labels":{"k":"\\ud800"}')
        connection.execute("UPDATE experiment SET spec = replace(spec, ?, ?)", labels)
    connection.close()
    assert main(["db", "check"]) == 1
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"experiment {identifier}: /labels/k: text that is no Unicode")
    assert line.endswith(f"Way out: tbd rm {identifier}")
    assert main(["db", "check", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["damaged"]
    assert (found["table"], found["id"], found["way_out"]) == ("experiment", identifier, f"tbd rm {identifier}")
