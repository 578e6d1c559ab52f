"""A3C as data, against its source; the games that it plays, and the batches that follow from them."""

import itertools
import shutil
import socket
import sys
import threading

import numpy
import pytest

from suites.assemble import layers
from suites.datasets import games
from suites.datasets.games import atari, catch, players
from suites.inputs import games as inputs
from suites.models.a3c import network
from suites.quality import game_scores
from tests.trainer_process import model_facts, read_job
from workers.trainer.base.failure import TrainerError

FACTS = model_facts("a3c")
TINY = FACTS["sizes"]["tiny"]
SIDE, ACTIONS, COUNT = TINY["image_pixels"], TINY["actions"], 3
RIGHT, LEFT, IDLE = 2, 3, 0


def test_the_network_is_that_of_the_source():
    """Mnih et al., 2016, supplement 8, with six actions: its numbers by hand."""
    found = network.layers(FACTS["sizes"]["full"])
    assert {size["actions"] for size in FACTS["sizes"].values()} == {atari.MOST_ACTIONS}
    assert layers.count(found) == 677943
    assert layers.flops(found) == 2 * (16 * 256 * 20**2 + 32 * 256 * 9**2 + 2592 * 256 + 256 * 7) == 5934592


@pytest.mark.parametrize("size", FACTS["sizes"].values(), ids=list(FACTS["sizes"]))
def test_the_facts_state_the_operations_of_a_step_by_the_formula(size):
    assert network.step_operations(size) == size["step_flops_per_sample"]


def a_job(root=None, **more):
    dataset = {"name": "it", "root": str(root), "loader": "games"} if root else None
    return read_job("a3c", "pytorch", dataset=dataset, per_device_batch_size=COUNT, **more)


@pytest.fixture
def root(tmp_path):
    games.write(str(tmp_path), "catch")
    return tmp_path


def opened(root, seed=1):
    return games.opener(root and str(root), SIDE, ACTIONS)(seed)


def well_played(image):
    """The action of who plays catch well; where it is over, any."""
    fields = image[:: SIDE // catch.FIELDS, :: SIDE // catch.FIELDS]
    (_, ball), bats = numpy.argwhere(fields == 255)[0], numpy.flatnonzero(fields[-1] == 128)
    bat = bats[0] if len(bats) else ball
    return RIGHT if ball > bat else LEFT if ball < bat else IDLE


def test_who_plays_catch_well_scores_1_and_who_does_nothing_mostly_loses(root):
    game, scores = opened(root), {well_played: [], lambda image: IDLE: []}
    for player, found in scores.items():
        for _ in range(70):
            image, over = game.begin(), False
            while not over:
                image, reward, over = game.step(player(image))
            found.append(reward)
    well, idle = scores.values()
    assert set(well) == {1.0}
    # The bat stands under one of seven fields.
    assert -0.95 < numpy.mean(idle) < -0.45


def test_an_unknown_game_is_refused_with_its_file(tmp_path):
    path = tmp_path / games.FILE
    for text in ('{"game": "chess"}', "{", "[]", '{"game": ["catch"]}'):
        path.write_text(text)
        with pytest.raises(TrainerError, match=str(path)) as refused:
            opened(tmp_path)
        assert refused.value.kind == "setup_failed"
    path.unlink()
    with pytest.raises(TrainerError, match=str(path)):
        opened(tmp_path)


def test_a_folder_without_one_game_and_an_emulator_is_refused(tmp_path):
    games.write(str(tmp_path), "atari")
    with pytest.raises(TrainerError, match=r"has no game: it needs one game, <game>\.bin"):
        opened(tmp_path)
    (tmp_path / "pong.bin").write_bytes(b"")
    with pytest.raises(TrainerError, match=f"the emulator in {tmp_path} cannot be used"):
        opened(tmp_path)
    (tmp_path / "breakout.bin").write_bytes(b"")
    with pytest.raises(TrainerError, match=r"breakout\.bin, pong\.bin"):
        atari.rom(str(tmp_path))


@pytest.mark.after_change
def test_pong_is_played_by_the_emulator_in_its_dataset_and_what_is_no_game_is_refused(made_dataset, tmp_path):
    pong = made_dataset("pong")
    game, generator = games.opener(str(pong), 84, ACTIONS)(1), numpy.random.RandomState(1)
    image, score, over = game.begin(), 0.0, False
    assert (image.shape, image.dtype) == ((84, 84), numpy.uint8)
    while not over:
        image, reward, over = game.step(generator.randint(ACTIONS))
        score += reward
    # Whoever has 21 points first has won.
    assert -21 <= score < -15
    with pytest.raises(TrainerError, match=r"pong\.bin needs 6 actions, and the network has 4"):
        games.opener(str(pong), 84, 4)(1)
    shutil.copytree(pong, tmp_path / "other")
    (tmp_path / "other" / "pong.bin").write_bytes(b"no game")
    with pytest.raises(TrainerError, match=r"other/pong\.bin is no game that ale-py 0\.12\.1 knows"):
        atari.refuse_unknown(sys.modules["ale_py"], str(tmp_path / "other" / "pong.bin"))


def test_catch_is_refused_where_its_board_does_not_fit(root):
    with pytest.raises(TrainerError, match="a multiple of 7, not 6 actions and 40 pixels"):
        games.opener(str(root), 40, ACTIONS)
    with pytest.raises(TrainerError, match="not 4 actions"):
        games.opener(str(root), SIDE, 4)


def test_a_game_that_begins_anew_is_seen_without_the_images_before():
    def images(*values):
        return numpy.stack([numpy.full((2, 2), value, numpy.uint8) for value in values])

    views = inputs.Views(images(1, 2), 3)
    views.add(images(51, 102), numpy.array([False, True]))
    views.add(images(255, 153), numpy.array([False, False]))
    found = views.numbers()
    assert found.dtype == numpy.float32
    assert (found[0, 0, 0] * 255).round().tolist() == [1, 51, 255]
    assert (found[1, 1, 1] * 255).round().tolist() == [102, 102, 153]


def test_returns_are_what_a_plain_loop_says_and_end_with_a_game():
    generator = numpy.random.RandomState(1)
    rewards, overs = generator.randint(-1, 2, (4, COUNT)), generator.uniform(size=(4, COUNT)) < 0.3
    values = generator.uniform(size=COUNT)
    found = inputs.returns(list(rewards.astype(float)), list(overs), values)
    for game, step in itertools.product(range(COUNT), range(4)):
        expected, weight = 0.0, 1.0
        for later in range(step, 4):
            expected += weight * rewards[later][game]
            weight *= inputs.DISCOUNT
            if overs[later][game]:
                weight = 0.0
        assert found[step][game] == pytest.approx(expected + weight * values[game])


def test_actions_are_drawn_as_often_as_the_policy_says():
    shares = numpy.array([0.5, 0.25, 0.125, 0.125])
    found = inputs.drawn(numpy.random.RandomState(1), numpy.tile(numpy.log(shares), (4000, 1)))
    assert numpy.bincount(found) / 4000 == pytest.approx(shares, abs=0.03)
    sure = numpy.array([[0.0, -1e9, 0.0], [-1e9, -1e9, 500.0]], numpy.float32)
    assert set(inputs.drawn(numpy.random.RandomState(1), numpy.repeat(sure, 50, axis=0))) == {0, 2}


def outputs(images):
    """A network that does not care."""
    return numpy.zeros((len(images), ACTIONS), numpy.float32), numpy.zeros(len(images), numpy.float32)


def batches(job, rank=0, count=2):
    found = inputs.batches(job, rank, TINY, "pytorch", lambda *arrays: arrays, outputs)
    return list(itertools.islice(found, count))


@pytest.mark.parametrize("data", ["synthetic", "catch"])
def test_a_batch_is_some_steps_of_each_game_and_the_seed_and_the_rank_decide_which(root, data):
    root = root if data == "catch" else None
    found = batches(a_job(root))
    rows = COUNT * TINY["steps"]
    for (images, actions, gained), work in found:
        assert images.shape == (rows, SIDE, SIDE, TINY["images"])
        assert (images.dtype, actions.dtype, gained.dtype) == (numpy.float32, numpy.int64, numpy.float32)
        assert 0.0 <= images.min() < images.max() <= 1.0
        assert set(actions) <= set(range(ACTIONS))
        assert abs(gained).max() <= 1.0 + inputs.DISCOUNT
        assert {name: work[name] for name in ("agent_steps", "frames", "updates")} == {
            "agent_steps": rows,
            "frames": 4 * rows,
            "updates": 1.0,
        }
        assert min(work["emulator_s"], work["acting_s"]) > 0
    assert not numpy.array_equal(found[0][0][0], found[1][0][0])
    for other, same in (
        (batches(a_job(root)), True),
        (batches(a_job(root, seed=2)), False),
        (batches(a_job(root, ranks=2), 1), False),
    ):
        assert numpy.array_equal(found[0][0][1], other[0][0][1]) is same


def test_a_score_is_the_mean_of_whole_games(root):
    (examples,) = inputs.evaluation(a_job(root), TINY)

    def sure(images):
        chosen = [well_played((image[..., -1] * 255).round()) for image in images]
        return (100.0 * numpy.eye(ACTIONS)[chosen],)

    assert examples.inputs[0].shape == (inputs.JUDGED, SIDE, SIDE, TINY["images"])
    found = game_scores.sums(sure(examples.inputs[0]), examples, lambda arrays: sure(*arrays))
    assert found == {"games": inputs.JUDGED, "score": inputs.JUDGED}
    assert game_scores.value(found) == 1.0
    with pytest.raises(TrainerError, match="name a dataset"):
        next(inputs.evaluation(a_job(), TINY))
    with pytest.raises(TrainerError, match="give max_steps"):
        inputs.epoch_samples(a_job(root), TINY)


def with_actors(root, folder, count):
    """(job of the worker, jobs of its actors): the same games as ``a_job``'s."""
    job = a_job(root)._replace(own_name="worker-0")
    own = {"role": "actor", "node": "here", "ranks": (), "beside": "worker-0", "of_rank": 0}
    actors = [job.process._replace(name=f"actor0-{number}", devices=(), **own) for number in range(count)]
    job = job._replace(processes=(*job.processes, *actors), folder=str(folder))
    return job, [job._replace(own_name=actor.name) for actor in actors]


@pytest.fixture
def nobody_connected(monkeypatch):
    monkeypatch.setattr(players, "_connected", {})


@pytest.mark.usefixtures("nobody_connected")
@pytest.mark.parametrize("count", [2, COUNT + 1], ids=["fewer than games", "more than games"])
def test_actors_play_the_games_that_a_worker_alone_would_play(root, tmp_path, monkeypatch, count):
    monkeypatch.chdir(tmp_path)
    job, others = with_actors(root, tmp_path, count)
    threads = [threading.Thread(target=players.serve, args=(other, other.process)) for other in others]
    for thread in threads:
        thread.start()
    table, alone = players.of_rank(job, 0, job.model.size), players.of_rank(a_job(root), 0, TINY)
    assert numpy.array_equal(table.begin(), alone.begin())
    for step in range(20):
        actions = (numpy.arange(COUNT) + step) % ACTIONS
        for one, other in zip(table.step(actions), alone.step(actions), strict=True):
            assert numpy.array_equal(one, other)
    for connection in players._connected[0]:
        connection.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.usefixtures("nobody_connected")
def test_an_actor_that_hangs_or_has_gone_ends_the_training_and_is_named(tmp_path):
    ours, theirs = socket.socketpair()
    table = players.Actors([ours], ["actor0-3"], COUNT, SIDE, answer_s=0.05)
    with pytest.raises(TrainerError, match=r"actor0-3 has played no step in 0\.05 s") as hung:
        table.begin()
    theirs.close()
    with pytest.raises(TrainerError, match="actor0-3 has gone") as gone:
        table.begin()
    assert (hung.value.kind, gone.value.kind) == ("timed_out", "crashed")
