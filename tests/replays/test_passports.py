"""Passports of recorded logs: computed anew they agree, and whatever was changed in them is noticed."""

import json
import random
import tempfile
import zipfile

import pytest

from orchestrator.cli.commands.analyse import passport
from orchestrator.cli.main import main
from orchestrator.cli.passport import container
from orchestrator.cli.passport.anonymous import Names
from orchestrator.cli.passport.container import Container, NoPassport
from orchestrator.cli.rest.looking import LookingClient
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.intake.import_log import import_log
from tests.replays.replay import raw
from tests.unit.api.api_rig import StandingCluster

LOGS = ("good_gang", "steady_pytorch", "killed_rank")
FLIPS = 1000


@pytest.fixture(scope="module")
def experiments(tmp_path_factory):
    """(a store with recorded runs, the ids of their experiments)."""
    folder = tmp_path_factory.mktemp("passports")
    store = SqlStore(f"sqlite:///{folder / 'tbd.sqlite3'}")
    context = Context(store, StandingCluster(), load_catalog(), SystemClock(), lambda: None)
    runs = []
    for name in LOGS:
        with tempfile.TemporaryFile() as file:
            file.write(raw(name))
            runs.append(import_log(context, file, Actor("ada", Scope.SUBMIT)))
    yield store, [run.experiment_id for run in runs]
    store.close()


@pytest.fixture
def written(experiments, tmp_path, monkeypatch):
    """A passport of all of them."""
    store, ids = experiments
    monkeypatch.setattr(passport, "look", lambda: LookingClient(store=store))

    def write(*options):
        path = tmp_path / "p.tbd"
        assert main(["passport", *ids, "-o", str(path), *options]) == 0
        return path

    return write


def with_member(path, name, change):
    """The same passport with another member of that name."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    members |= {name: change(members.get(name, b""))}
    container.write(path, [(one, [text]) for one, text in members.items()])


def test_a_passport_is_verified_and_is_the_same_each_time(written, capsys):
    first = written().read_bytes()
    path = written()
    assert path.read_bytes() == first
    assert main(["verify", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], found["differences"], found["other_analysis_versions"]) == (len(LOGS), [], [])
    assert found["numbers"] > 300


def test_a_number_or_a_log_that_was_changed_on_purpose_is_listed(written, experiments, capsys):
    (one, *_), path = experiments[1], written()
    told = f"{one}/told.json"

    def faster(text):
        found = json.loads(text)
        found["results"][0]["throughput"]["value"] *= 1 + 1e-6
        return json.dumps(found).encode()

    with_member(path, told, faster)
    assert main(["verify", str(path)]) == 1
    out = capsys.readouterr().out
    assert "1 differ of" in out
    assert "/results/0/throughput/value" in out
    with_member(written(), f"{one}/record.jsonl", lambda text: text.replace(b'"interval_s":0.', b'"interval_s":1.'))
    path = written()
    lines = [json.loads(line) for line in zipfile.ZipFile(path).read(f"{one}/record.jsonl").splitlines()]
    intervals = [line for line in lines if line.get("entry", {}).get("kind") == "interval"]
    intervals[len(intervals) // 2]["entry"]["data"]["duration_s"] *= 2
    with_member(path, f"{one}/record.jsonl", lambda _: b"".join(container.encoded(line) for line in lines))
    assert main(["verify", str(path)]) == 1


@pytest.mark.after_change
def test_any_byte_that_was_changed_on_the_way_is_noticed(written, tmp_path):
    whole, other, chance = written().read_bytes(), tmp_path / "other.tbd", random.Random(1)
    for place in [*chance.sample(range(len(whole)), FLIPS - 64), *range(len(whole) - 64, len(whole))]:
        changed = whole[place] ^ (1 << chance.randrange(8))
        other.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
        with pytest.raises(NoPassport):
            Container(other)


@pytest.mark.parametrize(
    ("member", "content", "told"),
    [
        ("../../etc/cron.d/x", b"x", "belongs"),
        ("exp_1/notes.txt", b"x", "belongs"),
        ("passport.json", b"{", "no JSON"),
        ("passport.json", b'{"format": 2, "experiments": [], "tbd_version": "9.1"}', "of tbd 9.1"),
        ("passport.json", b'{"format": 1, "experiments": ["exp_missing"]}', "exp_missing/told.json is missing"),
        ("record.jsonl", b"", "it is empty"),
        ("record.jsonl", b'{"experiment": {}, "runs": []}\n', "no 'id'"),
        ("record.jsonl", b'{"experiment": 1}', "within a line"),
        ("told.json", b'{"results": 1}', "what it tells"),
    ],
)
@pytest.mark.after_change
def test_what_is_no_passport_is_refused_with_the_reason(written, experiments, capsys, member, content, told):
    path, first = written(), experiments[1][0]
    with_member(path, f"{first}/{member}" if member in ("record.jsonl", "told.json") else member, lambda _: content)
    assert main(["verify", str(path)]) == 2
    assert told in capsys.readouterr().err


def test_a_file_that_is_cut_off_or_would_unpack_to_too_much_is_refused(written, capsys, monkeypatch):
    path = written()
    whole = path.read_bytes()
    for size in (0, 10, 64, len(whole) // 2):
        path.write_bytes(whole[:size])
        assert main(["verify", str(path)]) == 2
    path.write_bytes(whole)
    monkeypatch.setattr(container, "MOST_BYTES", 1000)
    assert main(["verify", str(path)]) == 2
    assert "at most 1000 are read" in capsys.readouterr().err
    assert main(["verify", str(path.with_name("nowhere"))]) == 2


def test_records_that_share_a_run_are_refused(written, experiments, capsys):
    first, second, *_ = experiments[1]
    path = written()
    with zipfile.ZipFile(path) as archive:
        shared = archive.read(f"{first}/record.jsonl").replace(first.encode(), second.encode())
    with_member(path, f"{second}/record.jsonl", lambda _: shared)
    assert main(["verify", str(path)]) == 2
    assert "no passport that can be verified" in capsys.readouterr().err


@pytest.mark.after_change
def test_an_anonymous_one_names_no_host_user_address_or_path_and_is_verified(written, experiments, capsys):
    store, ids = experiments
    path = written("--anonymous")
    names = {share.node for run in store.runs_of(ids[0]) for one in run.attempts for share in one.placement.shares}
    with zipfile.ZipFile(path) as archive:
        text = b"".join(map(archive.read, archive.namelist())).decode()
    for name in (*names, "ada"):
        assert f'"{name}"' not in text
    assert '"node-1"' in text
    assert main(["verify", str(path)]) == 0
    assert "verified" in capsys.readouterr().out


def test_a_node_that_a_spec_names_gets_another_name_and_a_kernel_keeps_its_own():
    entry = {"nodes": {"names": ["rack-7"]}, "spans": {"names": ["aten::conv2d"], "lanes": ["rack-7"]}}
    (names := Names()).look_for(entry)
    assert names.replaced(entry) == {
        "nodes": {"names": ["node-1"]},
        "spans": {"names": ["aten::conv2d"], "lanes": ["node-1"]},
    }
