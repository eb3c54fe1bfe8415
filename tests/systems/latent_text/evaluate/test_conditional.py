"""Class-conditional generation and style transfer: metrics equal those of their functions; collapse and copies are reported."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.evaluate import KneserNey, ReferencePool, corpus_bleu, distinct_ngrams, g_score, repetition_rate, self_bleu
from weft.evaluate.subsample import subsample
from weft.inference.perplexity import perplexity
from weft.systems.latent_text.evaluate import (
    Oracle,
    constant_baseline,
    copy_baseline,
    evaluate_generation,
    evaluate_transfer,
    retrieval_baseline,
    sample_baseline,
    table,
)

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
NO_BLEU = "BLEU, and so the G-score, is 0: no 4-gram is shared with the references, which is common with few texts"


# ------------------------------------------------------------------------------------------------------------- generation


def test_generation_metrics_equal_those_of_their_functions():
    texts = sample_baseline(WANTED, *TRAIN)
    model = KneserNey([text.split() for text in HELD], order=3)
    found = evaluate_generation(texts, WANTED, HELD, ORACLE, language_model=model)
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


def test_numbers_of_texts_and_references_are_respected():
    found = evaluate_generation(HELD[:40], HELD_LABELS[:40], HELD[40:60], ORACLE, max_texts=30, max_references=10, order=2)
    assert (found.bleu.texts, found.bleu.references, found.bleu.order, found.self_bleu.texts) == (30, 10, 2, 30)
    values = found.metric_values()
    assert (values["texts"], values["bleu_texts"], values["bleu_references"], values["self_bleu_texts"]) == (40, 30, 10, 30)
    assert values["bleu_2"] == found.bleu.score and "perplexity" not in values and "human_bleu" not in values


def test_references_are_subsampled_evenly():
    ends = ["a b c d"] * 500 + ["e f g h"] * 500
    found = evaluate_generation(["a b c d", "e f g h"] * 2, ["+", "-"] * 2, ends, ORACLE, max_references=10)
    assert found.bleu.score == pytest.approx(100)


def test_mode_collapse_maximizes_the_g_score_and_is_reported():
    """One sentence per class, taken from the references, reaches the maximum of accuracy, BLEU and G-score."""
    honest = evaluate_generation(sample_baseline(WANTED, *TRAIN), WANTED, HELD, ORACLE)
    among = subsample(range(len(HELD)), 1000)
    chosen = [next(i for i in among if HELD_LABELS[i] == label) for label in dict.fromkeys(WANTED)]
    same = constant_baseline(WANTED, [HELD[i] for i in chosen], [HELD_LABELS[i] for i in chosen])
    collapsed = evaluate_generation(same, WANTED, HELD, ORACLE)
    assert collapsed.g_score == pytest.approx(100) and honest.g_score < 95
    real = f"{collapsed.real_self_bleu.score:.1f}"
    assert collapsed.warnings == (f"mode collapse: Self-BLEU 100.0 (real texts: {real}); the G-score is not meaningful",)
    assert collapsed.distinct_texts == 2 / 500 and honest.distinct_texts > 0.5


def test_few_distinct_texts_are_mode_collapse_even_with_low_self_bleu():
    """Texts of one word have no 4-grams, so their Self-BLEU is 0."""
    texts = [f"w{i % 9}" for i in range(100)]
    found = evaluate_generation(texts, ["+"] * 100, HELD, ORACLE)
    assert found.self_bleu.score == 0
    assert found.warnings == ("mode collapse: 9 distinct texts among 100; the G-score is not meaningful", NO_BLEU)
    assert evaluate_generation([f"w{i % 10}" for i in range(100)], ["+"] * 100, HELD, ORACLE).warnings == (NO_BLEU,)


@pytest.mark.parametrize(("others", "warned"), [(1, "mode collapse: "), (20, "low diversity: "), (70, None)])
def test_self_bleu_thresholds_of_collapse_and_low_diversity(others, warned):
    texts = ["the food was good today"] * 60 + [" ".join(f"x{i}{j}" for j in range(5)) for i in range(others)]
    diverse = [" ".join(f"y{i}{j}" for j in range(5)) for i in range(100)]
    found = evaluate_generation(texts, ["+"] * len(texts), diverse, ORACLE)
    assert found.real_self_bleu.score == 0
    score = found.self_bleu.score
    assert warned == ("mode collapse: " if score >= 90 else "low diversity: " if score >= 50 else None)
    *warnings, last = found.warnings
    assert [warning.startswith(f"{warned}Self-BLEU {score:.1f}") for warning in warnings] == [True] * bool(warned)
    assert last == NO_BLEU


def test_low_diversity_of_the_real_texts_raises_the_thresholds():
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(list("abcd"), 8)) for _ in range(600)]
    found = evaluate_generation(texts[:300], ["+", "-"] * 150, texts[300:], ORACLE)
    assert found.self_bleu.score >= 90 and found.real_self_bleu.score >= 90 and found.warnings == ()
    once = evaluate_generation([texts[0]] * 30 + texts[:270], ["+", "-"] * 150, texts[300:], ORACLE)
    assert once.warnings == ()  # a tenth of equal texts is no collapse
    assert evaluate_generation(texts[:10] * 30, ["+", "-"] * 150, texts[300:], ORACLE).warnings


def test_a_bleu_of_0_is_explained():
    """Trigrams are shared, so only BLEU-4 is 0; empty texts are reported as empty instead."""
    texts, references = ["the food was awful , or so", "i liked it"], ["the food was good", "we liked it here very much"]
    assert evaluate_generation(texts, ["-", "+"], references, ORACLE).warnings == (NO_BLEU,)
    assert evaluate_generation(texts, ["-", "+"], references, ORACLE, order=3).warnings == ()
    (warning,) = evaluate_transfer(references, texts, ["-", "+"], ORACLE).warnings
    assert warning == NO_BLEU.replace("references", "sources")
    assert evaluate_generation(["", " "], ["-", "+"], references, ORACLE).warnings == ("2 of 2 texts are empty",)


def test_many_unknown_tokens_of_the_language_model_are_reported():
    texts = sample_baseline(WANTED, *TRAIN)
    few = KneserNey([text.split() for text in HELD[:10]], order=3, min_count=2)
    (warning,) = evaluate_generation(texts, WANTED, HELD, ORACLE, language_model=few).warnings
    found = perplexity(few, texts)
    assert warning.startswith(
        f"{found.unknown:,} of {found.tokens:,} tokens are unknown to the language model, so the perplexity is too low"
    )


def test_empty_texts_and_missing_classes_are_reported():
    texts, wanted = real(40, 5)
    texts[3] = texts[7] = " "
    assert evaluate_generation(texts, wanted, HELD, ORACLE).warnings == ("2 of 40 texts are empty",)
    order = sorted(range(40), key=lambda i: wanted[i])
    found = evaluate_generation([real(40, 5)[0][i] for i in order], [wanted[i] for i in order], HELD, ORACLE, max_texts=20)
    assert found.warnings == ("no text of class '-' among the first 20, which BLEU uses; shuffle the texts",)


# --------------------------------------------------------------------------------------------------------------- transfer


SOURCES, LABELS = real(600, 3)
OTHER = ["-" if label == "+" else "+" for label in LABELS]


def flipped(text):
    pairs = dict(zip(MARKS["+"], MARKS["-"], strict=True))
    pairs |= {b: a for a, b in pairs.items()}
    return " ".join(pairs.get(word, word) for word in text.split())


def test_transfer_metrics_equal_those_of_their_functions():
    texts = [flipped(source) for source in SOURCES]
    human = [[text, source] for text, source in zip(texts, SOURCES, strict=True)]
    found = evaluate_transfer(SOURCES, texts, OTHER, ORACLE, human_references=human)
    assert found.accuracy == ORACLE.accuracy(texts, OTHER) > 0.9
    assert found.source_accuracy == ORACLE.accuracy(SOURCES, OTHER) < 0.1
    assert found.bleu == corpus_bleu(texts, [[source] for source in SOURCES])
    assert 20 < found.bleu.score < 95 and found.human_bleu is not None and found.human_bleu.score == pytest.approx(100)
    assert (found.bleu.texts, found.bleu.references, found.human_bleu.references, found.self_bleu.texts) == (600, 1, 2, 500)
    assert found.real_self_bleu == self_bleu(subsample(SOURCES, 500))
    assert found.g_score == pytest.approx(math.sqrt(100 * found.accuracy * found.bleu.score))
    assert found.warnings == ()
    assert {"human_bleu", "human_references", "source_accuracy"} <= set(found.metric_values())


def test_copies_are_reported():
    found = evaluate_transfer(SOURCES, copy_baseline(SOURCES, OTHER), OTHER, ORACLE)
    assert found.bleu.score == pytest.approx(100) and found.accuracy == found.source_accuracy
    (warning,) = found.warnings
    assert warning == f"copies: BLEU 100.0 against the sources, but accuracy {found.accuracy:.3f} (sources: {found.accuracy:.3f})"
    # no warning where the accuracy exceeds that of the sources
    assert not evaluate_transfer(SOURCES, SOURCES[:-9] + [flipped(s) for s in SOURCES[-9:]], OTHER, ORACLE).warnings


def test_baselines_in_one_table():
    systems = {
        "copy": copy_baseline(SOURCES, OTHER),
        "constant": constant_baseline(OTHER, *TRAIN),
        "retrieval": retrieval_baseline(SOURCES, OTHER, *TRAIN),
    }
    found = {name: evaluate_transfer(SOURCES, texts, OTHER, ORACLE) for name, texts in systems.items()}
    assert found["copy"].bleu.score > found["retrieval"].bleu.score > found["constant"].bleu.score
    assert found["retrieval"].accuracy > 0.9 and found["copy"].accuracy < 0.1
    assert [one.split(":")[0] for metrics in found.values() for one in metrics.warnings] == [
        "copies",
        "mode collapse",
        "low diversity",
    ]
    shown = table(found).splitlines()
    assert shown[0].startswith("| system | texts | accuracy | bleu_4 | bleu_texts | bleu_references | g_score | self_bleu |")
    assert [line.split(" | ")[0] for line in shown[2:5]] == ["| copy", "| constant", "| retrieval"]
    assert shown[2].split(" | ")[1:4] == ["600", f"{found['copy'].accuracy:.3f}", "100.00"]
    assert shown[6] == f"- copy: {found['copy'].warnings[0]}" and len(shown) == 9


def test_table_has_the_union_of_all_columns():
    some = evaluate_generation(HELD[:20], HELD_LABELS[:20], HELD, ORACLE)
    other = evaluate_transfer(SOURCES[:20], SOURCES[:20], LABELS[:20], ORACLE)
    head, _, first, second = table({"a": some, "b": other}).splitlines()[:4]
    assert "source_accuracy" in head and first.endswith("| - |") and not second.endswith("| - |")


def test_invalid_inputs_are_reported():
    with pytest.raises(ValueError, match="1 texts, but 2 target labels"):
        evaluate_generation(["a"], ["+", "-"], HELD, ORACLE)
    with pytest.raises(ValueError, match="at least two texts, got one"):
        evaluate_generation(["a"], ["+"], HELD, ORACLE)
    with pytest.raises(ValueError, match="got no texts"):
        evaluate_generation([], [], HELD, ORACLE)
    with pytest.raises(ValueError, match="got no references"):
        evaluate_generation(["a", "b"], ["+", "-"], [], ORACLE)
    with pytest.raises(ValueError, match="at least 2 references, but there is 1"):
        evaluate_generation(["a", "b"], ["+", "-"], ["a"], ORACLE)
    with pytest.raises(ValueError, match="the oracle has no class '0'"):
        evaluate_generation(["a", "b"], ["+", "0"], HELD, ORACLE)
    with pytest.raises(ValueError, match="max_texts must be at least 2 for Self-BLEU, not 1"):
        evaluate_generation(["a", "b"], ["+", "-"], HELD, ORACLE, max_texts=1)
    with pytest.raises(ValueError, match="max_references must be at least 1, not 0"):
        evaluate_generation(["a", "b"], ["+", "-"], HELD, ORACLE, max_references=0)
    with pytest.raises(ValueError, match="1 sources, but 2 texts"):
        evaluate_transfer(["a"], ["a", "b"], ["+", "-"], ORACLE)
    with pytest.raises(ValueError, match="got 2 texts and 1 lists of references"):
        evaluate_transfer(["a", "b"], ["a", "b"], ["+", "-"], ORACLE, human_references=[["a"]])
