"""Evaluation protocols for class-conditional generation and style transfer.

Both take lists of strings from any system. Words are separated by spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.evaluate.distinct import distinct_ngrams, distinct_texts, repetition_rate
from weft.evaluate.forward_bleu import COLLAPSED_DISTINCT, COLLAPSED_SELF_BLEU
from weft.evaluate.kneser_ney import KneserNey
from weft.evaluate.ngrams import BleuScore, ReferencePool, corpus_bleu, g_score, self_bleu
from weft.evaluate.subsample import subsample
from weft.inference.perplexity import Perplexity, perplexity
from weft.systems.latent_text.evaluate.oracle import Oracle

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

COPY_BLEU = 95.0
"""BLEU against the sources above which outputs without a gain in accuracy are reported as copies."""
MAX_UNKNOWN_FRACTION = 0.1
"""Fraction of tokens unknown to the language model above which the perplexity is reported as too low."""


@dataclass(frozen=True)
class GenerationMetrics:
    """Metrics of texts generated for target labels. Accuracies and fractions are in 0..1, BLEU scores in 0..100."""

    texts: int
    """Number of texts; accuracy and perplexity use all of them."""
    accuracy: float
    """Fraction of texts that the oracle assigns to the target class."""
    bleu: BleuScore
    """BLEU against the references or, in style transfer, against the sources."""
    self_bleu: BleuScore
    """Self-BLEU of the first ``max_texts`` texts."""
    real_self_bleu: BleuScore
    """Self-BLEU of as many references or sources, for comparison."""
    distinct_1: float
    """Distinct words over all words, in the texts of ``self_bleu``; the next three use the same texts."""
    distinct_2: float
    distinct_texts: float
    repetition: float
    """Fraction of words that repeat the previous word."""
    human_bleu: BleuScore | None = None
    """In style transfer, BLEU against human references."""
    source_accuracy: float | None = None
    """In style transfer, the accuracy of the unchanged sources."""
    perplexity: Perplexity | None = None
    warnings: tuple[str, ...] = ()
    """Reasons not to trust a metric, such as mode collapse or copies."""

    @property
    def g_score(self) -> float:
        """Geometric mean of accuracy and BLEU, 0..100."""
        return g_score(self.accuracy, self.bleu.score)

    def metric_values(self) -> dict[str, float]:
        """Return all metrics by name; a BLEU score comes with its numbers of texts and references."""
        values = {
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
            values |= {"human_bleu": self.human_bleu.score, "human_references": self.human_bleu.references}
        if self.source_accuracy is not None:
            values["source_accuracy"] = self.source_accuracy
        if self.perplexity is not None:
            values |= {"perplexity": self.perplexity.per_token, "word_perplexity": self.perplexity.per_word}
        return values


def evaluate_generation(
    texts: Sequence[str],
    target_labels: Sequence[str],
    references: Sequence[str],
    oracle: Oracle,
    *,
    language_model: TrainedRun | KneserNey | None = None,
    max_texts: int = 500,
    max_references: int = 1000,
    order: int = 4,
) -> GenerationMetrics:
    """Evaluate texts generated for target labels (class-conditional generation).

    Oracle accuracy over all texts; BLEU of the first ``max_texts`` texts against ``max_references`` real texts of all classes;
    Self-BLEU, distinct n-grams and repetition of the same first texts. BLEU and Self-BLEU grow with these numbers, so compare
    scores only at equal numbers. The first texts must cover all classes: alternate the classes, or shuffle.

    Args:
        texts: The generated texts.
        target_labels: The target class of each text.
        references: Held-out real texts; subsampled evenly if there are more than ``max_references``.
        oracle: A classifier trained on other real texts.
        language_model: A language model for the perplexity, other than the generator.
        max_texts: Number of texts for BLEU and Self-BLEU.
        max_references: Number of references for BLEU.
        order: Maximum n-gram order of BLEU.

    Example:
        >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
        >>> metrics = evaluate_generation(["so good", "so good"], ["+", "-"], ["so good", "very bad"], oracle, order=2)
        >>> metrics.accuracy, metrics.warnings
        (0.5, ('mode collapse: Self-BLEU 100.0 (real texts: 0.0); the G-score is not meaningful',))
    """
    _check(texts, target_labels, max_texts)
    if max_references < 1:
        raise ValueError(f"max_references must be at least 1, not {max_references}; 1000 is usual")
    if len(references) == 1:
        raise ValueError("Self-BLEU of the references needs at least 2 references, but there is 1; 1000 are usual")
    bleu = ReferencePool(subsample(references, max_references), order=order).bleu(texts[:max_texts])
    return _metrics(texts, target_labels, references, oracle, language_model, max_texts, bleu)


def evaluate_transfer(
    sources: Sequence[str],
    texts: Sequence[str],
    target_labels: Sequence[str],
    oracle: Oracle,
    *,
    human_references: Sequence[Sequence[str]] | None = None,
    language_model: TrainedRun | KneserNey | None = None,
    max_texts: int = 500,
    order: int = 4,
) -> GenerationMetrics:
    """Evaluate texts rewritten to another class (style transfer).

    Oracle accuracy, BLEU of each text against its source and, if given, against human references, over all texts; Self-BLEU,
    distinct n-grams and repetition of the first ``max_texts``. Copies of the sources have BLEU 100 and the accuracy
    ``source_accuracy``.

    Args:
        sources: The input texts.
        texts: The rewritten texts, one per source.
        target_labels: The target class of each text.
        oracle: A classifier trained on other real texts.
        human_references: Human rewrites of each source.
        language_model: A language model for the perplexity, other than the generator.
        max_texts: Number of texts for Self-BLEU.
        order: Maximum n-gram order of BLEU.

    Example:
        >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
        >>> metrics = evaluate_transfer(["so bad", "so good"], ["so bad", "so good"], ["+", "-"], oracle, order=2)
        >>> metrics.warnings
        ('copies: BLEU 100.0 against the sources, but accuracy 0.000 (sources: 0.000)',)
    """
    _check(texts, target_labels, max_texts)
    if len(sources) != len(texts):
        raise ValueError(f"{len(sources)} sources, but {len(texts)} texts; give one text per source")
    bleu = corpus_bleu(texts, [[source] for source in sources], order=order)
    human = corpus_bleu(texts, human_references, order=order) if human_references is not None else None
    source_accuracy = oracle.accuracy(sources, target_labels)
    return _metrics(texts, target_labels, sources, oracle, language_model, max_texts, bleu, human, source_accuracy)


def table(systems: Mapping[str, GenerationMetrics]) -> str:
    """Format the metrics of several systems as a Markdown table, one row per system, followed by their warnings.

    Args:
        systems: Metrics by the name of the system.

    Example:
        >>> oracle = Oracle.train(["so good", "so bad"] * 2, ["+", "-"] * 2)
        >>> metrics = evaluate_generation(["so good", "so bad"], ["+", "-"], ["so good", "very bad"], oracle, order=2)
        >>> print(table({"mine": metrics}).splitlines()[0][:46])
        | system | texts | accuracy | bleu_2 | bleu_te
    """
    rows = {name: metrics.metric_values() for name, metrics in systems.items()}
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [f"| {' | '.join(['system', *columns])} |", f"|{'---|' * (len(columns) + 1)}"]
    for name, row in rows.items():
        lines.append(f"| {' | '.join([name, *(_format(column, row.get(column)) for column in columns)])} |")
    warnings = [f"- {name}: {warning}" for name, metrics in systems.items() for warning in metrics.warnings]
    return "\n".join([*lines, *(["", *warnings] if warnings else [])])


def _metrics(
    texts: Sequence[str],
    target_labels: Sequence[str],
    real: Sequence[str],
    oracle: Oracle,
    language_model: TrainedRun | KneserNey | None,
    max_texts: int,
    bleu: BleuScore,
    human_bleu: BleuScore | None = None,
    source_accuracy: float | None = None,
) -> GenerationMetrics:
    first = texts[:max_texts]
    accuracy, distinct = oracle.accuracy(texts, target_labels), distinct_texts(first)
    self_score, real_score = (self_bleu(some, order=bleu.order) for some in (first, subsample(real, len(first))))
    cost = perplexity(language_model, texts) if language_model is not None else None
    return GenerationMetrics(
        texts=len(texts),
        accuracy=accuracy,
        bleu=bleu,
        self_bleu=self_score,
        real_self_bleu=real_score,
        distinct_1=distinct_ngrams(first, 1),
        distinct_2=distinct_ngrams(first, 2),
        distinct_texts=distinct,
        repetition=repetition_rate(first),
        human_bleu=human_bleu,
        source_accuracy=source_accuracy,
        perplexity=cost,
        warnings=(
            *_collapse_warnings(self_score, real_score, distinct, len(first)),
            *_copy_warnings(bleu, accuracy, source_accuracy),
            *_sample_warnings(texts, target_labels, len(first)),
            *_zero_bleu_warnings(texts, bleu, "references" if source_accuracy is None else "sources"),
            *_unknown_token_warnings(cost),
        ),
    )


def _collapse_warnings(self_score: BleuScore, real_score: BleuScore, distinct: float, texts: int) -> list[str]:
    scores = f"Self-BLEU {self_score.score:.1f} (real texts: {real_score.score:.1f})"
    halfway = (100 + real_score.score) / 2
    if self_score.score >= max(COLLAPSED_SELF_BLEU, halfway):  # a higher threshold where real texts are similar to each other
        return [f"mode collapse: {scores}; the G-score is not meaningful"]
    if distinct < COLLAPSED_DISTINCT:
        number = round(distinct * texts)
        return [f"mode collapse: {number:,} distinct texts among {texts:,}; the G-score is not meaningful"]
    if self_score.score >= halfway:
        return [f"low diversity: {scores}; this raises BLEU and so the G-score"]
    return []


def _copy_warnings(bleu: BleuScore, accuracy: float, source_accuracy: float | None) -> list[str]:
    if source_accuracy is None or bleu.score <= COPY_BLEU or accuracy > source_accuracy:
        return []
    return [f"copies: BLEU {bleu.score:.1f} against the sources, but accuracy {accuracy:.3f} (sources: {source_accuracy:.3f})"]


def _sample_warnings(texts: Sequence[str], target_labels: Sequence[str], first: int) -> list[str]:
    warnings = []
    if empty := sum(not text.split() for text in texts):
        warnings.append(f"{empty:,} of {len(texts):,} texts are empty")
    if missing := sorted(set(target_labels) - set(target_labels[:first])):
        warnings.append(f"no text of class {missing[0]!r} among the first {first:,}, which BLEU uses; shuffle the texts")
    return warnings


def _zero_bleu_warnings(texts: Sequence[str], bleu: BleuScore, references: str) -> list[str]:
    if bleu.score or not any(text.split() for text in texts):
        return []
    return [
        f"BLEU, and so the G-score, is 0: no {bleu.order}-gram is shared with the {references}, which is common with few texts"
    ]


def _unknown_token_warnings(cost: Perplexity | None) -> list[str]:
    if cost is None or cost.unknown <= MAX_UNKNOWN_FRACTION * cost.tokens:
        return []
    return [
        f"{cost.unknown:,} of {cost.tokens:,} tokens are unknown to the language model, so the perplexity is too low; "
        "train the language model on more texts"
    ]


def _check(texts: Sequence[str], target_labels: Sequence[str], max_texts: int) -> None:
    if len(texts) != len(target_labels):
        raise ValueError(f"{len(texts)} texts, but {len(target_labels)} target labels; give one label per text")
    if max_texts < 2:
        raise ValueError(f"max_texts must be at least 2 for Self-BLEU, not {max_texts}; 500 is usual")


def _format(column: str, value: float | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if any(word in column for word in ("bleu", "g_score", "perplexity")) else f"{value:.3f}"
