"""BLEU by sums, against sacrebleu's own numbers."""

import random

import pytest
from sacrebleu.metrics.bleu import BLEU

from suites import quality
from suites.quality import bleu

SENTENCES = [
    "The cat is on the mat.",
    "There is a cat on the mat, and it's 3.5 years old (or 4,000 days)!",
    "--option=VALUE: 10-20 %d &quot;quoted&quot; &amp; <skipped>kept\n",
    "không thể mở tập tin “%s” để đọc: lỗi 404.",
    "a-b 1-2 x.y 1.2 ,5 5, . , ...",
    "  spaces\tand   tabs  ",
    "",
    "one",
    "$5.00 + [x] = {y} ~ `z` ^ |w| \\ / @ # ; : ? < > _",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_are_those_of_sacrebleu(sentence):
    assert " ".join(bleu.words(sentence)) == BLEU().tokenizer(sentence.rstrip())


def pairs(seed):
    """Translations that keep, drop, double and exchange words of their references."""
    generator = random.Random(seed)
    found = []
    for _ in range(generator.randint(1, 30)):
        reference = " ".join(generator.choice(SENTENCES) for _ in range(generator.randint(1, 2)))
        words = [word for word in reference.split(" ") for _ in range(generator.choice([0, 1, 1, 1, 1, 1, 2]))]
        if generator.random() < 0.3:
            generator.shuffle(words)
        found.append((" ".join(words), reference))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_value_is_that_of_sacrebleu(seed):
    drawn = pairs(seed)
    expected = BLEU().corpus_score([one for one, _ in drawn], [[other for _, other in drawn]])
    assert bleu.value(bleu.sums(drawn)) == pytest.approx(expected.score, abs=1e-9)


@pytest.mark.parametrize(
    ("translation", "reference"),
    [
        ("the cat sat on the mat", "the cat sat on the mat"),  # 100
        ("the mat cat the sat on", "the cat sat on the mat"),  # no trigram: smoothed
        ("cat", "the cat sat on the mat"),  # no bigram offered: 0
        ("dogs bark at night loudly", "the cat sat on the mat"),  # nothing found: 0
        ("", "the cat sat on the mat"),
    ],
)
def test_edges_are_those_of_sacrebleu(translation, reference):
    expected = BLEU().corpus_score([translation], [[reference]])
    assert bleu.value(bleu.sums([(translation, reference)])) == pytest.approx(expected.score, abs=1e-9)


def test_sums_of_parts_add_up_to_those_of_the_whole():
    drawn = pairs(3)
    halves = [bleu.sums(drawn[:7]), bleu.sums(drawn[7:])]
    assert {name: halves[0][name] + halves[1][name] for name in bleu.names()} == bleu.sums(drawn)


def test_the_signature_is_sacrebleus():
    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])
    assert str(metric.get_signature()).startswith(bleu.SIGNATURE + "|version:")
    assert bleu.SIGNATURE in quality.DETAILS["bleu"]
    assert set(quality.DETAILS) <= set(quality.METRICS)
