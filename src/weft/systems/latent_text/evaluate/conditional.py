"""Two protocols for texts that a network wrote: texts of a wanted class, and texts rewritten to be of another class.

Both take lists of strings, whoever made them; words have blanks between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.evaluate.distinct import distinct_ngrams, distinct_texts, repetition_rate
from weft.evaluate.forward_bleu import COLLAPSED_DISTINCT, COLLAPSED_SELF_BLEU
from weft.evaluate.kneser_ney import KneserNey
from weft.evaluate.language_model import Perplexity, perplexity
from weft.evaluate.ngrams import BleuScore, ReferencePool, corpus_bleu, g_score, self_bleu
from weft.evaluate.subsample import subsample
from weft.systems.latent_text.evaluate.oracle import Oracle

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

COPIED_BLEU = 95.0
UNKNOWN_SHARE = 0.1


@dataclass(frozen=True)
class Written:
    """The figures of a set of texts that were written for wanted classes. Accuracy and shares are 0 to 1, BLEUs 0 to 100."""

    texts: int
    """All of them: what the accuracy and the perplexity are of."""
    accuracy: float
    """The share that has the wanted class for the oracle."""
    bleu: BleuScore
    """Against the references; of rewritten texts, against their sources."""
    self_bleu: BleuScore
    """Of the first texts: how much they are alike."""
    real_self_bleu: BleuScore
    """Of as many references, or sources: how much real texts are alike."""
    distinct_1: float
    """Different words among all words, in the texts of ``self_bleu``; likewise the next three."""
    distinct_2: float
    distinct_texts: float
    repetition: float
    """The share of words that equal the word before."""
    human_bleu: BleuScore | None = None
    """Of rewritten texts, against those that people wrote."""
    source_accuracy: float | None = None
    """The accuracy that the sources themselves would have: that of a copy."""
    perplexity: Perplexity | None = None
    warnings: tuple[str, ...] = ()
    """Why a figure may mean nothing."""

    @property
    def g_score(self) -> float:
        """The geometric mean of accuracy and BLEU, 0 to 100."""
        return g_score(self.accuracy, self.bleu.score)

    def row(self) -> dict[str, float]:
        """The figures by name, for a table: a BLEU with the number of texts and references that it is of."""
        found = {
            "texts": self.texts,
            "accuracy": self.accuracy,
            f"bleu_{self.bleu.order}": self.bleu.score,
            "bleu_texts": self.bleu.texts,
            "bleu_references": self.bleu.references,
            "g_score": self.g_score,
            "self_bleu": self.self_bleu.score,
            "self_bleu_texts": self.self_bleu.texts,
            "real_self_bleu": self.real_self_bleu.score,
            "distinct_1": self.distinct_1,
            "distinct_2": self.distinct_2,
            "distinct_texts": self.distinct_texts,
            "repetition": self.repetition,
        }
        if self.human_bleu is not None:
            found |= {"human_bleu": self.human_bleu.score, "human_references": self.human_bleu.references}
        if self.source_accuracy is not None:
            found["source_accuracy"] = self.source_accuracy
        if self.perplexity is not None:
            found |= {"perplexity": self.perplexity.per_token, "word_perplexity": self.perplexity.per_word}
        return found


def judge_generation(
    texts: Sequence[str],
    wanted_labels: Sequence[str],
    references: Sequence[str],
    oracle: Oracle,
    *,
    model: TrainedRun | KneserNey | None = None,
    most_texts: int = 500,
    most_references: int = 1000,
    order: int = 4,
) -> Written:
    """Judge texts that were written for wanted classes, from nothing else.

    Accuracy by the oracle, over all texts; BLEU of the first ``most_texts`` against ``most_references`` real texts of all
    classes; Self-BLEU, different n-grams and repetition of the same first texts. BLEU and Self-BLEU grow with the numbers, so
    that those of other numbers cannot be compared. The first texts must have all classes: put these in turn, or shuffle.

    Args:
        texts: What was written.
        wanted_labels: The class that each text should have.
        references: Real texts that no model was trained with, taken from all of them where there are more than wanted.
        oracle: A classifier trained on real texts alone, others than the references.
        model: A language model that did not write the texts, for their perplexity.
        most_texts: How many texts the BLEUs are of.
        most_references: How many references.
        order: The longest n-grams of the BLEUs.

    >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
    >>> found = judge_generation(["so good", "so good"], ["+", "-"], ["so good", "very bad"], oracle, order=2)
    >>> found.accuracy, found.warnings
    (0.5, ('collapsed: Self-BLEU 100.0 (real texts: 0.0); its G-score means nothing',))
    """
    _check(texts, wanted_labels, most_texts)
    if most_references < 1:
        raise ValueError(f"most_references is {most_references}, but there must be one: 1000 is usual")
    if len(references) == 1:
        raise ValueError("one reference, but they are compared with each other too: give two or more, 1000 is usual")
    bleu = ReferencePool(subsample(references, most_references), order=order).bleu(texts[:most_texts])
    return _written(texts, wanted_labels, references, oracle, model, most_texts, bleu)


def judge_transfer(
    sources: Sequence[str],
    texts: Sequence[str],
    wanted_labels: Sequence[str],
    oracle: Oracle,
    *,
    human_references: Sequence[Sequence[str]] | None = None,
    model: TrainedRun | KneserNey | None = None,
    most_texts: int = 500,
    order: int = 4,
) -> Written:
    """Judge texts that were made of sources, to be of another class and else the same.

    Accuracy by the oracle and BLEU of each text against its source, over all texts, and against what people wrote where it is
    given; Self-BLEU, different n-grams and repetition of the first ``most_texts``. A copy of the source has BLEU 100: the
    accuracy of the sources themselves, ``source_accuracy``, is what it reaches.

    Args:
        sources: What was rewritten.
        texts: What was made of each.
        wanted_labels: The class that each text should have.
        oracle: A classifier trained on real texts alone, others than the sources.
        human_references: For each source the texts that people made of it.
        model: A language model that did not write the texts, for their perplexity.
        most_texts: How many texts Self-BLEU is of.
        order: The longest n-grams of the BLEUs.

    >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
    >>> found = judge_transfer(["so bad", "so good"], ["so bad", "so good"], ["+", "-"], oracle, order=2)
    >>> found.warnings
    ('copies: BLEU 100.0 against the sources, and an accuracy of 0.000 where the sources have 0.000',)
    """
    _check(texts, wanted_labels, most_texts)
    if len(sources) != len(texts):
        raise ValueError(f"{len(sources)} sources, but {len(texts)} texts: give one for each")
    bleu = corpus_bleu(texts, [[source] for source in sources], order=order)
    human = corpus_bleu(texts, human_references, order=order) if human_references is not None else None
    same = oracle.accuracy(sources, wanted_labels)
    return _written(texts, wanted_labels, sources, oracle, model, most_texts, bleu, human, same)


def table(rows: Mapping[str, Written]) -> str:
    """The figures of several systems in Markdown, one line each, with their warnings below.

    >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
    >>> found = judge_generation(["so good", "so bad"], ["+", "-"], ["so good", "very bad"], oracle, order=2)
    >>> print(table({"mine": found}).splitlines()[0][:46])
    | system | texts | accuracy | bleu_2 | bleu_te
    """
    named = {name: written.row() for name, written in rows.items()}
    columns = list(dict.fromkeys(column for row in named.values() for column in row))
    lines = [f"| {' | '.join(['system', *columns])} |", f"|{'---|' * (len(columns) + 1)}"]
    for name, row in named.items():
        lines.append(f"| {' | '.join([name, *(_shown(column, row.get(column)) for column in columns)])} |")
    said = [f"- {name}: {warning}" for name, written in rows.items() for warning in written.warnings]
    return "\n".join([*lines, *(["", *said] if said else [])])


def _written(
    texts: Sequence[str],
    wanted_labels: Sequence[str],
    real: Sequence[str],
    oracle: Oracle,
    model: TrainedRun | KneserNey | None,
    most_texts: int,
    bleu: BleuScore,
    human: BleuScore | None = None,
    source_accuracy: float | None = None,
) -> Written:
    first = texts[:most_texts]
    accuracy, different = oracle.accuracy(texts, wanted_labels), distinct_texts(first)
    alike, natural = (self_bleu(some, order=bleu.order) for some in (first, subsample(real, len(first))))
    warnings = []
    both, half_way = f"Self-BLEU {alike.score:.1f} (real texts: {natural.score:.1f})", (100 + natural.score) / 2
    if alike.score >= max(COLLAPSED_SELF_BLEU, half_way):  # where real texts are alike themselves, it takes more
        warnings.append(f"collapsed: {both}; its G-score means nothing")
    elif different < COLLAPSED_DISTINCT:
        number = round(different * len(first))
        warnings.append(f"collapsed: {number:,} different texts among {len(first):,}; its G-score means nothing")
    elif alike.score >= half_way:
        warnings.append(f"much alike: {both}; BLEU, and so the G-score, gain by it")
    if source_accuracy is not None and bleu.score > COPIED_BLEU and accuracy <= source_accuracy:
        warnings.append(
            f"copies: BLEU {bleu.score:.1f} against the sources, "
            f"and an accuracy of {accuracy:.3f} where the sources have {source_accuracy:.3f}"
        )
    if empty := sum(not text.split() for text in texts):
        warnings.append(f"{empty:,} of {len(texts):,} texts are empty")
    if missing := sorted(set(wanted_labels) - set(wanted_labels[:most_texts])):
        warnings.append(f"none of the first {len(first):,} texts was to be {missing[0]!r}, and BLEU is of these: shuffle them")
    if bleu.score == 0 and any(text.split() for text in texts):
        what = "the references" if source_accuracy is None else "the sources"
        shared = f"no sequence of {bleu.order} words is shared with {what}"
        warnings.append(f"BLEU, and so the G-score, is 0: {shared}, which is usual of few texts")
    cost = perplexity(model, texts) if model is not None else None
    if cost is not None and cost.unknown > UNKNOWN_SHARE * cost.tokens:
        strange = f"{cost.unknown:,} of {cost.tokens:,} tokens are unknown to the language model"
        warnings.append(f"{strange}, so that the perplexity is too low: train it on more texts")
    return Written(
        texts=len(texts),
        accuracy=accuracy,
        bleu=bleu,
        self_bleu=alike,
        real_self_bleu=natural,
        distinct_1=distinct_ngrams(first, 1),
        distinct_2=distinct_ngrams(first, 2),
        distinct_texts=different,
        repetition=repetition_rate(first),
        human_bleu=human,
        source_accuracy=source_accuracy,
        perplexity=cost,
        warnings=tuple(warnings),
    )


def _check(texts: Sequence[str], wanted_labels: Sequence[str], most_texts: int) -> None:
    if len(texts) != len(wanted_labels):
        raise ValueError(f"{len(texts)} texts, but {len(wanted_labels)} wanted classes: give one for each")
    if most_texts < 2:
        raise ValueError(f"most_texts is {most_texts}, but texts are compared with each other: give two or more, 500 is usual")


def _shown(column: str, figure: float | None) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, int):
        return f"{figure:,}"
    return f"{figure:.2f}" if any(word in column for word in ("bleu", "g_score", "perplexity")) else f"{figure:.3f}"
