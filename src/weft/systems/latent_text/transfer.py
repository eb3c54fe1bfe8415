"""How well a run writes texts of a wanted class, and rewrites texts to be of another: both settings, for any run that can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.core.contracts import ProgressCallback
from weft.core.seeding import key
from weft.data.text_files import TextWithLabel, read_labeled_texts, read_texts
from weft.evaluate import KneserNey
from weft.inference.load import load
from weft.inference.trained_run import TrainedRun
from weft.systems.latent_text.evaluate import Oracle, Written, judge_generation, judge_transfer, shared_texts
from weft.systems.latent_text.space import LatentSpace, Searching, texts_at

MOST = 5000
LOOKED_AT = 50_000
"""So many of the run's training texts are looked for among the oracle's."""


@dataclass(frozen=True)
class Writing:
    """What a run wrote, and the figures of it.

    Args:
        generation: Of texts that were drawn, the classes in turn.
        transfer: Of real texts that were rewritten to be of another class; None where the run cannot.
        oracle_accuracy: How often the oracle is right about the real texts: the most that can be reached.
        drawn: Each text that was drawn, with the class it was to have.
        rewritten: Each real text, the class it was to have, and what was made of it.
        shared: How many of the real texts the oracle was trained with.
        model_shared: How many of them the language model was trained with, which says their perplexity.
        trained_shared: How many of the run's training texts the oracle was trained with, of those that were looked at.
        strange: Classes that the oracle knows, and the run does not.
    """

    generation: Written
    transfer: Written | None
    oracle_accuracy: float
    drawn: tuple[tuple[str, str], ...]
    rewritten: tuple[tuple[str, str, str], ...]
    shared: int = 0
    model_shared: int = 0
    trained_shared: int = 0
    strange: tuple[str, ...] = ()

    def metric_values(self) -> dict[str, float]:
        """By name: ``generation_accuracy``, ``transfer_bleu_4`` and so on."""
        found = {"oracle_accuracy": self.oracle_accuracy}
        for name, written in (("generation", self.generation), ("transfer", self.transfer)):
            if written is not None:
                found |= {f"{name}_{figure}": value for figure, value in written.row().items()}
        return found

    def warnings(self) -> list[str]:
        """Why a figure may mean nothing."""
        found = [f"generation: {warning}" for warning in self.generation.warnings]
        found += [f"transfer: {warning}" for warning in self.transfer.warnings] if self.transfer is not None else []
        if self.shared:
            found.append(f"the oracle was trained with {self.shared:,} of the real texts: give it others")
        if self.trained_shared:
            found.append(
                f"the oracle was trained with {self.trained_shared:,} of the texts that the run was trained with: give it others"
            )
        if self.strange:
            found.append(f"the oracle may say {', '.join(self.strange)}, which is no class of the run: that counts as wrong")
        if self.model_shared:
            found.append(f"the language model was trained with {self.model_shared:,} of the real texts: give it others")
        return found


def is_oracle(places: Sequence[str]) -> bool:
    """Whether these name a file that ``Oracle.save`` wrote, and no texts."""
    return len(places) == 1 and Path(places[0]).suffix == ".json"


def open_oracle(places: Sequence[str]) -> tuple[Oracle, list[str]]:
    """An oracle and the texts that it knows: read from its file (.json), or trained on what ``read_sorted`` reads.

    Args:
        places: The file that ``Oracle.save`` wrote, whose texts are not known any more; or tables, or CLASS=FILE.
    """
    if is_oracle(places):
        if not Path(places[0]).is_file():
            raise ValueError(f"there is no file {places[0]}")
        return Oracle.load(places[0]), []
    rows = read_labeled_texts(places)
    return Oracle.train([row.text for row in rows], [str(row.label) for row in rows]), [row.text for row in rows]


def open_fluency(places: Sequence[str]) -> tuple[KneserNey, list[str]]:
    """A language model that says how usual texts are, and the texts that it was trained with: n-grams of up to four words.

    Args:
        places: Tables, or files with a text a line, as ``read_texts`` reads them. Words that stand in them once are unknown.
    """
    texts = [row.text for place in places for row in read_texts(place)]
    return KneserNey([text.split() for text in texts], order=4, min_count=2), texts


def judge_run(
    run: TrainedRun | str | Path,
    oracle: Oracle | Sequence[tuple[str, str | None]],
    *,
    known: Sequence[str] = (),
    split: str | None = None,
    files: Sequence[str | Path] = (),
    most: int = MOST,
    seed: int = 0,
    search: Searching = None,
    model: TrainedRun | KneserNey | None = None,
    model_known: Sequence[str] = (),
    human_references: Sequence[Sequence[str]] | None = None,
    tell: ProgressCallback | None = None,
) -> Writing:
    """Judge a run by both settings: texts of a class drawn from nothing, and real texts rewritten to be of another class.

    As many texts are drawn as there are real ones, the classes in turn, and compared with these; each real text is rewritten to
    be of another class (of several, one drawn by the seed) and compared with itself.
    See ``judge_generation`` and ``judge_transfer``.

    Args:
        run: A trained run that writes texts of a class, or its folder.
        oracle: The classifier that judges; or real texts with their classes, of which one is trained.
        known: The texts that it was trained with.
        split: Which real texts: a split of the run's data (by default test, or valid without one).
        files: Other files of the same kind instead.
        most: At most so many texts.
        seed: What is drawn follows from it, and the order of the real texts.
        search: How texts are written; None = as the recipe says.
        model: A language model that did not write them, for their perplexity.
        model_known: The texts that it was trained with.
        human_references: For each real text what people made of it.
        tell: Hears how far it is.
    """
    trained = run if isinstance(run, TrainedRun) else load(run)
    space = LatentSpace(trained)
    if not space.samples_by_label:
        space.wanted(0, "")  # says what it can do
    if not isinstance(oracle, Oracle):
        known, pairs = [text for text, _ in oracle], [(text, str(label)) for text, label in oracle]
        oracle = Oracle.train([text for text, _ in pairs], [label for _, label in pairs])
    if missing := [name for name in space.classes if name not in oracle.labels]:
        raise ValueError(f"the oracle does not know the class {missing[0]!r} of the run (it knows: {', '.join(oracle.labels)})")
    if most < 2:
        raise ValueError(f"most is {most}, but texts are compared with each other: give two or more, {MOST:,} is usual")
    rows = _real(trained, split, files)
    if human_references is not None and len(human_references) != len(rows):
        raise ValueError(f"{len(human_references)} human references, but {len(rows)} real texts: give one list for each")
    mixed = np.random.default_rng(key(seed, "real")).permutation(len(rows))  # files come class by class
    at = [int(row) for row in mixed[:most]]
    rows = [rows[i] for i in at]
    texts, labels = [row.text for row in rows], [str(row.label) for row in rows]

    wanted = [space.classes[i % len(space.classes)] for i in range(len(rows))]
    z_NP = space.draw(len(rows), wanted, seed)
    written = (trained.decode(row[0]) for row in space.search_all(z_NP, wanted, search))
    drawn = list(_heard(written, "drawing texts", len(rows), tell))
    generation = judge_generation(drawn, wanted, texts, oracle, model=model)

    transfer, rewritten, others = None, list[str](), list[str]()
    if space.labelled:
        others = [_another(label, space.classes, seed, row) for row, label in zip(at, labels, strict=True)]
        found = space.rewrite(texts, None, others, search)
        rewritten = list(_heard(found, "rewriting texts", len(rows), tell))
        human = None if human_references is None else [human_references[i] for i in at]
        transfer = judge_transfer(texts, rewritten, others, oracle, human_references=human, model=model)
    return Writing(
        generation,
        transfer,
        oracle.accuracy(texts, labels),
        tuple(zip(wanted, drawn, strict=True)),
        tuple(zip(texts, others, rewritten, strict=True)) if rewritten else (),
        shared_texts(known, texts) if known else 0,
        shared_texts(model_known, texts) if model_known else 0,
        shared_texts(known, _trained_with(trained)) if known else 0,
        tuple(name for name in oracle.labels if name not in space.classes),
    )


def _real(run: TrainedRun, split: str | None, files: Sequence[str | Path]) -> list[TextWithLabel]:
    """The texts that the run is judged by, with their classes."""
    name, dataset = run.dataset(split, files)
    raw = [dataset.raw(row) for row in range(len(dataset))]
    if any("label" not in row for row in raw):
        raise ValueError(f"the rows of {name} have no classes, so that texts of a class cannot be compared with them")
    return [TextWithLabel(row["source"], row["label"]) for row in raw]


def _trained_with(run: TrainedRun) -> list[str]:
    """Texts that the run was trained with; none where its data is not there any more, and it is judged by other files."""
    try:
        return [row.text for row in texts_at(run, ["train"], LOOKED_AT)]
    except (OSError, ValueError):
        return []


def _another(label: str, classes: Sequence[str], seed: int, row: int) -> str:
    others = [name for name in classes if name != label]
    return others[int(np.random.default_rng(key(seed, "transfer", row)).integers(len(others)))]


def _heard(texts: Iterable[str], what: str, total: int, tell: ProgressCallback | None) -> Iterator[str]:
    for done, text in enumerate(texts, 1):
        yield text
        if tell is not None:
            tell(f"{what}: {done:,} of {total:,}", 0, 0)
