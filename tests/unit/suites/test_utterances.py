"""Utterances: what synthetic ones are like, what becomes of audio, and what of a dataset is refused."""

import re

import numpy
import pytest
import soundfile

from suites.datasets import checking
from suites.datasets.utterances import arrays, characters, loading, spectrogram
from suites.inputs import utterances
from tests.trainer_process import model_facts, read_job
from workers.trainer.base.failure import TrainerError

SIZES = model_facts("deep_speech_2")["sizes"]
RATE = spectrogram.RATE


def test_synthetic_utterances_have_the_spread_of_real_ones_and_transcripts_that_fit():
    size = {**SIZES["full"], "frequencies": 1}
    spectrograms, mask, labels, places = next(utterances.synthetic(2000, size, (1, 0)))
    frames = mask.sum(axis=1).astype(int)
    # Most of LibriSpeech's have 12 to 16 s, of 17 here.
    assert frames.mean() / 100 == pytest.approx(12.6, abs=0.3)
    assert 1.5 < frames.min() / 100 < 3 < 13 < numpy.median(frames) / 100 < 14
    assert (places == -(-frames // 2)).all()
    assert ((spectrograms[:, 0] != 0) == (mask > 0)).all()
    assert spectrograms[:, 0][mask > 0].std() == pytest.approx(1.0, abs=0.01)
    lengths = (labels > 0).sum(axis=1)
    assert (lengths / frames).mean() == pytest.approx(0.15, rel=0.05)
    said = [row[:length].tolist() for row, length in zip(labels, lengths, strict=True)]
    assert all(characters.needed(one) <= most for one, most in zip(said, places, strict=True))
    assert utterances.work(spectrograms, mask, labels, places) == {
        "audio_seconds": pytest.approx(frames.sum() / 100),
        "utterances": 2000,
    }


def test_batches_follow_the_seed_and_the_rank():
    job = read_job("deep_speech_2", "pytorch", per_device_batch_size=3)
    one, again, other = (
        next(utterances.batches(job, rank, SIZES["tiny"], "pytorch", lambda *arrays: arrays)) for rank in (0, 0, 1)
    )
    assert all((a == b).all() for a, b in zip(one[0], again[0], strict=True))
    assert (one[0][0] != other[0][0]).any()


def tone(hertz, seconds):
    return (8000 * numpy.sin(2 * numpy.pi * hertz * numpy.arange(int(RATE * seconds)) / RATE)).astype(numpy.int16)


def test_a_spectrogram_has_a_column_every_10_ms_of_20_ms_and_shows_a_tone_at_its_frequency():
    assert [spectrogram.frames(samples) for samples in (0, 319, 320, 479, 480, RATE)] == [0, 0, 1, 1, 2, 99]
    found = spectrogram.of(numpy.concatenate([tone(1000, 0.5), tone(3000, 0.5)]))
    assert (found.shape, found.dtype) == ((161, 99), numpy.float32)
    assert (found.mean(), found.std()) == (pytest.approx(0, abs=1e-4), pytest.approx(1, abs=1e-4))
    # A row is 50 Hz.
    assert set(found[:, :48].argmax(axis=0)) == {20}
    assert set(found[:, 51:].argmax(axis=0)) == {60}
    assert numpy.isfinite(spectrogram.of(numpy.zeros(400, numpy.int16))).all()


def a_dataset(root, text="HELLO THERE", samples=None, rate=RATE, ending="flac", split="train-clean-100"):
    """One utterance in LibriSpeech's layout; its (transcripts, audio)."""
    folder = root / split / "84" / "121123"
    folder.mkdir(parents=True)
    transcripts, audio = folder / "84-121123.trans.txt", folder / f"84-121123-0000.{ending}"
    transcripts.write_text(f"84-121123-0000 {text}\n")
    soundfile.write(audio, tone(440, 1.0) if samples is None else samples, rate, subtype="PCM_16")
    return transcripts, audio


@pytest.mark.parametrize("ending", ["flac", "wav"])
def test_a_dataset_is_numbered_and_read_as_it_was(tmp_path, ending):
    a_dataset(tmp_path / "source", ending=ending)
    a_dataset(tmp_path / "source", "A SECOND ONE", tone(500, 2.0), ending=ending, split="train-other-500")
    a_dataset(tmp_path / "source", "I'D SAY SO", tone(600, 1.5), ending=ending, split="test-clean")
    assert checking.check("librispeech", str(tmp_path / "source")) == {
        "splits": {"train": {"utterances": 2}, "test-clean": {"utterances": 1}},
        "read": "every file",
        "problems": [],
    }
    root = str(tmp_path / "prepared")
    arrays.write(str(tmp_path / "source"), root)
    (batch,) = [next(loading.batches(root, 2, (250, 20), 1, 0, 1))]
    assert {characters.text(labels) for _, labels in batch} == {"HELLO THERE", "A SECOND ONE"}
    ((samples, labels),) = loading.judged(root)
    assert (samples == tone(600, 1.5)).all()
    assert characters.text(labels) == "I'D SAY SO"
    # Of 200 frames the longer one has too many.
    assert loading.epoch_samples(root, (150, 20)) == 1
    with pytest.raises(TrainerError, match="no utterance of train has 10 frames and 20 characters"):
        loading.batches(root, 1, (10, 20), 1, 0, 1)


def test_what_is_judged_is_whole_in_few_shapes(tmp_path):
    for split, seconds in (("train", 1), ("test", 3)):
        arrays.begun(str(tmp_path), split, seconds * RATE)[:] = tone(440, seconds)
        arrays.finished(str(tmp_path), split, numpy.array([seconds * RATE]), ["A B" * seconds])
    job = read_job("deep_speech_2", "pytorch", dataset={"name": "it", "root": str(tmp_path), "loader": "utterances"})
    (found,) = utterances.evaluation(job, {**SIZES["tiny"], "frames": 120, "characters": 4})
    assert [one.shape for one in found.inputs + found.targets] == [(1, 161, 360), (1, 360), (1, 12), (1,)]
    assert (found.inputs[1].sum(), found.targets[1][0]) == (299, 150)


def without_audio(transcripts, audio):
    audio.unlink()


def cut_off(transcripts, audio):
    audio.write_bytes(audio.read_bytes()[:-9000])


def no_length(transcripts, audio):
    """Of FLAC's STREAMINFO: the 36 bits of the number of samples are 0."""
    content = bytearray(audio.read_bytes())
    content[21:26] = bytes([content[21] & 0xF0, 0, 0, 0, 0])
    audio.write_bytes(content)


def no_audio(transcripts, audio):
    audio.write_bytes(b"RIFF, as it were")


NOTHING = numpy.zeros(0, numpy.int16)
REFUSED = [
    ({"text": ""}, None, r"trans\.txt: line 1: 84-121123-0000 says nothing"),
    ({"text": "NO. 5"}, None, r"trans\.txt: line 1: '\.' is no character of a transcript"),
    ({"text": "hello"}, None, r"trans\.txt: line 1: 'h' is no character"),
    ({"text": "A" * 26}, None, r"trans\.txt: line 1: its 26 characters take 51 places, and .*flac has 50, of 1\.00 s"),
    ({}, without_audio, r"trans\.txt: line 1: there is neither .*\.flac nor .*\.wav"),
    ({"rate": 8000}, None, r"0000\.flac: it has 8000 Hz and 1 channels, and one of 16000 Hz is read"),
    ({"samples": tone(440, 1.0).reshape(-1, 2)}, None, r"0000\.flac: it has 16000 Hz and 2 channels"),
    ({}, no_length, r"0000\.flac: it has 0 s of audio, or its head does not say"),
    ({"samples": NOTHING, "ending": "wav"}, None, r"0000\.wav: .*0 s of audio"),
    ({"samples": numpy.zeros(3600 * RATE, numpy.int16)}, None, r"0000\.flac: it has 3600 s of audio"),
    ({}, cut_off, r"0000\.flac: "),
    ({"ending": "wav"}, cut_off, r"0000\.wav: it ends after 11500 of 16000 samples"),
    ({"ending": "wav"}, no_audio, r"0000\.wav: "),
    ({"split": "dev-clean"}, None, r"there is no folder train or train-"),
]


@pytest.mark.parametrize(("given", "damage", "problem"), REFUSED)
def test_what_cannot_be_trained_on_is_refused_with_its_file_and_line(tmp_path, given, damage, problem):
    written = a_dataset(tmp_path / "source", **given)
    if damage:
        damage(*written)
    with pytest.raises(SystemExit, match=problem):
        arrays.write(str(tmp_path / "source"), str(tmp_path / "prepared"))
    (told,) = checking.check("librispeech", str(tmp_path / "source"))["problems"]
    assert re.search(problem, told)
