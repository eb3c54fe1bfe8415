"""Protocols for texts that were written for a class: each figure is that of its own function, and what cheats is said to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.evaluate import KneserNey, ReferencePool, corpus_bleu, distinct_ngrams, g_score, perplexity, repetition_rate, self_bleu
from weft.evaluate.subsample import subsample
from weft.systems.latent_text.evaluate import Oracle, constant, copied, drawn, judge_generation, judge_transfer, retrieved, table

THINGS = [f"{first}{second}" for first in ("food", "staff", "soup", "music", "room") for second in ("", "s", "y", "ling")]
MARKS = {"+": ["good", "fine", "nice", "great"], "-": ["bad", "cold", "rude", "awful"]}
SHAPES = ["the {} was {} today", "i found the {} {} again", "what a {} {} here", "so {} , their {} !", "{} and {} as ever"]


def real(rows, seed):
    rng = np.random.default_rng(seed)
    labels = ["+-"[i % 2] for i in range(rows)]
    texts = [rng.choice(SHAPES).format(rng.choice(THINGS), rng.choice(MARKS[label])) for label in labels]
    return [f"{text} {rng.choice(THINGS)} {rng.choice(THINGS)}" for text in texts], labels


TRAIN = real(600, 0)
ORACLE = Oracle.train(*real(400, 1))
HELD, HELD_LABELS = real(1500, 2)
WANTED = ["+", "-"] * 300
NO_BLEU = "BLEU, and so the G-score, is 0: no sequence of 4 words is shared with the references, which is usual of few texts"


# ------------------------------------------------------------------------------------------------------------- generation


def test_each_figure_of_generation_is_that_of_its_function():
    texts = drawn(WANTED, *TRAIN)
    model = KneserNey([text.split() for text in HELD], order=3)
    found = judge_generation(texts, WANTED, HELD, ORACLE, model=model)
    assert (found.texts, found.bleu.texts, found.bleu.references) == (600, 500, 1000)
    assert (found.self_bleu.texts, found.self_bleu.references) == (500, 499)
    assert found.accuracy == ORACLE.accuracy(texts, WANTED) > 0.9
    assert found.bleu == ReferencePool(subsample(HELD, 1000)).bleu(texts[:500])
    assert found.self_bleu == self_bleu(texts[:500])
    assert found.real_self_bleu == self_bleu(subsample(HELD, 500))
    assert found.g_score == g_score(found.accuracy, found.bleu.score) > 10
    assert found.distinct_1 == distinct_ngrams(texts[:500], 1) and found.distinct_2 == distinct_ngrams(texts[:500], 2)
    assert found.repetition == repetition_rate(texts[:500])
    assert found.perplexity == perplexity(model, texts)
    assert found.human_bleu is None and found.source_accuracy is None and found.warnings == ()


def test_numbers_are_those_asked_for():
    found = judge_generation(HELD[:40], HELD_LABELS[:40], HELD[40:60], ORACLE, most_texts=30, most_references=10, order=2)
    assert (found.bleu.texts, found.bleu.references, found.bleu.order, found.self_bleu.texts) == (30, 10, 2, 30)
    row = found.row()
    assert (row["texts"], row["bleu_texts"], row["bleu_references"], row["self_bleu_texts"]) == (40, 30, 10, 30)
    assert row["bleu_2"] == found.bleu.score and "perplexity" not in row and "human_bleu" not in row


def test_sorted_references_are_taken_from_all_of_them():
    ends = ["a b c d"] * 500 + ["e f g h"] * 500
    found = judge_generation(["a b c d", "e f g h"] * 2, ["+", "-"] * 2, ends, ORACLE, most_references=10)
    assert found.bleu.score == pytest.approx(100)


def test_a_collapsed_model_wins_and_is_said_to():
    """One sentence for each class that is among the references: accuracy, BLEU and so the G-score are the highest there are."""
    honest = judge_generation(drawn(WANTED, *TRAIN), WANTED, HELD, ORACLE)
    among = subsample(range(len(HELD)), 1000)
    said = [next(i for i in among if HELD_LABELS[i] == label) for label in dict.fromkeys(WANTED)]
    same = constant(WANTED, [HELD[i] for i in said], [HELD_LABELS[i] for i in said])
    collapsed = judge_generation(same, WANTED, HELD, ORACLE)
    assert collapsed.g_score == pytest.approx(100) and honest.g_score < 95
    real = f"{collapsed.real_self_bleu.score:.1f}"
    assert collapsed.warnings == (f"collapsed: Self-BLEU 100.0 (real texts: {real}); its G-score means nothing",)
    assert collapsed.distinct_texts == 2 / 500 and honest.distinct_texts > 0.5


def test_few_texts_said_often_are_collapsed_even_where_they_are_unlike():
    """Each once more at least, Self-BLEU is 100; with single words it is 0, for there are no 4-grams."""
    texts = [f"w{i % 9}" for i in range(100)]
    found = judge_generation(texts, ["+"] * 100, HELD, ORACLE)
    assert found.self_bleu.score == 0
    assert found.warnings == ("collapsed: 9 different texts among 100; its G-score means nothing", NO_BLEU)
    assert judge_generation([f"w{i % 10}" for i in range(100)], ["+"] * 100, HELD, ORACLE).warnings == (NO_BLEU,)


@pytest.mark.parametrize(("unlike", "said"), [(1, "collapsed: "), (20, "much alike: "), (70, None)])
def test_where_self_bleu_begins_to_be_a_collapse(unlike, said):
    texts = ["the food was good today"] * 60 + [" ".join(f"x{i}{j}" for j in range(5)) for i in range(unlike)]
    unlike_real = [" ".join(f"y{i}{j}" for j in range(5)) for i in range(100)]
    found = judge_generation(texts, ["+"] * len(texts), unlike_real, ORACLE)
    assert found.real_self_bleu.score == 0
    assert said == ("collapsed: " if found.self_bleu.score >= 90 else "much alike: " if found.self_bleu.score >= 50 else None)
    *warnings, last = found.warnings
    assert [warning.startswith(f"{said}Self-BLEU {found.self_bleu.score:.1f}") for warning in warnings] == [True] * bool(said)
    assert last == NO_BLEU


def test_real_texts_that_are_alike_are_no_collapse():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcd"), 8)) for _ in range(600)]
    found = judge_generation(texts[:300], ["+", "-"] * 150, texts[300:], ORACLE)
    assert found.self_bleu.score >= 90 and found.real_self_bleu.score >= 90 and found.warnings == ()
    once = judge_generation([texts[0]] * 30 + texts[:270], ["+", "-"] * 150, texts[300:], ORACLE)
    assert once.warnings == ()  # a tenth of them the same is no collapse either
    assert judge_generation(texts[:10] * 30, ["+", "-"] * 150, texts[300:], ORACLE).warnings


def test_a_bleu_of_0_is_explained():
    """Three words in a row are shared, so that only a BLEU of longer ones is 0; of empty texts, it is that they are empty."""
    texts, references = ["the food was awful , or so", "i liked it"], ["the food was good", "we liked it here very much"]
    assert judge_generation(texts, ["-", "+"], references, ORACLE).warnings == (NO_BLEU,)
    assert judge_generation(texts, ["-", "+"], references, ORACLE, order=3).warnings == ()
    (warning,) = judge_transfer(references, texts, ["-", "+"], ORACLE).warnings
    assert warning == NO_BLEU.replace("references", "sources")
    assert judge_generation(["", " "], ["-", "+"], references, ORACLE).warnings == ("2 of 2 texts are empty",)


def test_a_language_model_that_knows_few_of_the_words_is_said():
    texts = drawn(WANTED, *TRAIN)
    few = KneserNey([text.split() for text in HELD[:10]], order=3, min_count=2)
    (warning,) = judge_generation(texts, WANTED, HELD, ORACLE, model=few).warnings
    found = perplexity(few, texts)
    assert warning.startswith(
        f"{found.unknown:,} of {found.tokens:,} tokens are unknown to the language model, so that the perpl"
    )


def test_empty_texts_and_classes_that_come_late_are_said():
    texts, wanted = real(40, 5)
    texts[3] = texts[7] = " "
    assert judge_generation(texts, wanted, HELD, ORACLE).warnings == ("2 of 40 texts are empty",)
    order = sorted(range(40), key=lambda i: wanted[i])
    found = judge_generation([real(40, 5)[0][i] for i in order], [wanted[i] for i in order], HELD, ORACLE, most_texts=20)
    assert found.warnings == ("none of the first 20 texts was to be '-', and BLEU is of these: shuffle them",)


# --------------------------------------------------------------------------------------------------------------- transfer


SOURCES, LABELS = real(600, 3)
OTHER = ["-" if label == "+" else "+" for label in LABELS]


def flipped(text):
    pairs = dict(zip(MARKS["+"], MARKS["-"], strict=True))
    pairs |= {b: a for a, b in pairs.items()}
    return " ".join(pairs.get(word, word) for word in text.split())


def test_each_figure_of_transfer_is_that_of_its_function():
    texts = [flipped(source) for source in SOURCES]
    human = [[text, source] for text, source in zip(texts, SOURCES, strict=True)]
    found = judge_transfer(SOURCES, texts, OTHER, ORACLE, human_references=human)
    assert found.accuracy == ORACLE.accuracy(texts, OTHER) > 0.9
    assert found.source_accuracy == ORACLE.accuracy(SOURCES, OTHER) < 0.1
    assert found.bleu == corpus_bleu(texts, [[source] for source in SOURCES])
    assert 20 < found.bleu.score < 95 and found.human_bleu is not None and found.human_bleu.score == pytest.approx(100)
    assert (found.bleu.texts, found.bleu.references, found.human_bleu.references, found.self_bleu.texts) == (600, 1, 2, 500)
    assert found.real_self_bleu == self_bleu(subsample(SOURCES, 500))
    assert found.g_score == pytest.approx(math.sqrt(100 * found.accuracy * found.bleu.score))
    assert found.warnings == ()
    assert {"human_bleu", "human_references", "source_accuracy"} <= set(found.row())


def test_copies_are_said_to_be_copies():
    found = judge_transfer(SOURCES, copied(SOURCES, OTHER), OTHER, ORACLE)
    assert found.bleu.score == pytest.approx(100) and found.accuracy == found.source_accuracy
    (warning,) = found.warnings
    assert (
        warning
        == f"copies: BLEU 100.0 against the sources, and an accuracy of {found.accuracy:.3f} where the sources have "
        + (f"{found.accuracy:.3f}")
    )
    # with the wanted class reached it is no copy that cheats
    assert not judge_transfer(SOURCES, SOURCES[:-9] + [flipped(s) for s in SOURCES[-9:]], OTHER, ORACLE).warnings


def test_the_trivial_systems_side_by_side():
    systems = {
        "copy": copied(SOURCES, OTHER),
        "constant": constant(OTHER, *TRAIN),
        "retrieval": retrieved(SOURCES, OTHER, *TRAIN),
    }
    found = {name: judge_transfer(SOURCES, texts, OTHER, ORACLE) for name, texts in systems.items()}
    assert found["copy"].bleu.score > found["retrieval"].bleu.score > found["constant"].bleu.score
    assert found["retrieval"].accuracy > 0.9 and found["copy"].accuracy < 0.1
    assert [said.split(":")[0] for w in found.values() for said in w.warnings] == ["copies", "collapsed", "much alike"]
    shown = table(found).splitlines()
    assert shown[0].startswith("| system | texts | accuracy | bleu_4 | bleu_texts | bleu_references | g_score | self_bleu |")
    assert [line.split(" | ")[0] for line in shown[2:5]] == ["| copy", "| constant", "| retrieval"]
    assert shown[2].split(" | ")[1:4] == ["600", f"{found['copy'].accuracy:.3f}", "100.00"]
    assert shown[6] == f"- copy: {found['copy'].warnings[0]}" and len(shown) == 9


def test_a_table_has_the_columns_of_all():
    some = judge_generation(HELD[:20], HELD_LABELS[:20], HELD, ORACLE)
    other = judge_transfer(SOURCES[:20], SOURCES[:20], LABELS[:20], ORACLE)
    head, _, first, second = table({"a": some, "b": other}).splitlines()[:4]
    assert "source_accuracy" in head and first.endswith("| - |") and not second.endswith("| - |")


def test_errors():
    with pytest.raises(ValueError, match="1 texts, but 2 wanted classes"):
        judge_generation(["a"], ["+", "-"], HELD, ORACLE)
    with pytest.raises(ValueError, match="one text is not enough"):
        judge_generation(["a"], ["+"], HELD, ORACLE)
    with pytest.raises(ValueError, match="there are no texts"):
        judge_generation([], [], HELD, ORACLE)
    with pytest.raises(ValueError, match="there are no references"):
        judge_generation(["a", "b"], ["+", "-"], [], ORACLE)
    with pytest.raises(ValueError, match="one reference, but they are compared with each other too"):
        judge_generation(["a", "b"], ["+", "-"], ["a"], ORACLE)
    with pytest.raises(ValueError, match="does not know the class '0'"):
        judge_generation(["a", "b"], ["+", "0"], HELD, ORACLE)
    with pytest.raises(ValueError, match="most_texts is 1"):
        judge_generation(["a", "b"], ["+", "-"], HELD, ORACLE, most_texts=1)
    with pytest.raises(ValueError, match="most_references is 0"):
        judge_generation(["a", "b"], ["+", "-"], HELD, ORACLE, most_references=0)
    with pytest.raises(ValueError, match="1 sources, but 2 texts"):
        judge_transfer(["a"], ["a", "b"], ["+", "-"], ORACLE)
    with pytest.raises(ValueError, match="2 texts, but 1 lists of references"):
        judge_transfer(["a", "b"], ["a", "b"], ["+", "-"], ORACLE, human_references=[["a"]])
