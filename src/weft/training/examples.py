"""Examples of a recipe's data, as they are stored and as its objectives see them in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.contracts import Codec, Corpus, Objective, ProgressCallback, TrainingDataset
from weft.core.example import MarkedIds, Sequences, Targets, ids_of
from weft.core.fields import LabelField, TokenizedField
from weft.core.registry import name_of
from weft.core.seeding import key
from weft.data import EvaluationFeed, Feed, permute
from weft.inspect.contact_sheet import Picture, SheetExample, SheetSection, Strip
from weft.learning.phase import phase_names
from weft.training.build import StagePlan, build_network, plans
from weft.training.run import Run
from weft.training.sources import objective_names, open_corpora

VERSIONS = 3
"""Augmented versions of an example: those of the first epochs."""
_GRAY = 128


def sheet_sections(run: Run, splits: Sequence[str], number: int, progress: ProgressCallback | None = None) -> list[SheetSection]:
    """Return examples of each source and split of a run's first stage, sampled evenly.

    Args:
        run: The run.
        splits: Names of the splits; empty = all.
        number: Examples of each.
        progress: Called with the progress of preparing the data.
    """
    plan = plans(run)[0]
    corpora = open_corpora(plan, None, {}, progress)
    network = build_network(plan, {name: corpus.codec.info for name, corpus in corpora.items()}, run.seed, "meta")
    found: list[SheetSection] = []
    for source, objective in objective_names(plan).items():
        corpus = corpora[source]
        wanted = [split for split in corpus.splits if not splits or split in splits]
        for split in wanted:
            name = f"{source}: {split}" if source else split
            seed = (run.seed, plan.index, _phase_name(plan, source, objective))
            feed = _feed(corpus, split, network.objectives[objective], seed, split == "train")
            found.append(_section(name, corpus.codec, feed, number, split == "train"))
    if not found:
        known = ", ".join(dict.fromkeys(split for corpus in corpora.values() for split in corpus.splits))
        raise ValueError(f"the data has no split {' or '.join(map(repr, splits))}; available: {known}")
    return found


def _phase_name(plan: StagePlan, source: str, objective: str) -> str:
    """The name of the first phase that trains the objective, on which its random numbers depend."""
    phases = getattr(plan.learning(), "phases", [])
    for phase, name in zip(phases, phase_names(phases), strict=True):
        if (phase.objective or objective) == objective and (phase.data or source) == source:
            return name
    return "main"


def _feed(corpus: Corpus, split: str, objective: Objective, seed: Any, training: bool) -> Feed | EvaluationFeed:
    return (Feed if training else EvaluationFeed)(corpus.splits[split], objective, key=seed, budget=1 << 30)


def _section(name: str, codec: Codec, feed: Feed | EvaluationFeed, number: int, training: bool) -> SheetSection:
    rows = np.sort(permute(np.arange(min(number, len(feed.dataset))), len(feed.dataset), key("show", name)))
    changes = training and isinstance(feed.dataset, TrainingDataset)
    epochs = list(range(VERSIONS)) if changes and codec.info.images() else [0 if training else -1]
    examples = [_Describer(codec, feed).describe(int(row), epochs, changes) for row in rows]
    how = f"after augmentation: the first {VERSIONS} epochs" if len(epochs) > 1 else ""
    notes = [f"objective: {name_of(type(feed.objective))}", how]
    return SheetSection(name, len(feed.dataset), examples, [note for note in notes if note])


class _Describer:
    """Describes the examples of a feed."""

    def __init__(self, codec: Codec, feed: Feed | EvaluationFeed):
        self.codec, self.feed, self.info = codec, feed, codec.info
        self.patch = getattr(feed.objective, "patch_size", 0)

    def describe(self, row: int, epochs: Sequence[int], changes: bool) -> SheetExample:
        cells = self.feed.dataset.raw(row)
        facts = [(name, cell.replace("\t", " | ")) for name, cell in cells.items()]
        stored = self.feed.dataset[row]
        pictures = [Picture(f.displayed(stored[f.name]), cells.get("label", f.name)) for f in self.info.images()]
        strips: list[Strip] = []
        for epoch in epochs:
            instance = self.feed.instance(row, epoch)
            if instance is None:
                facts.append(("objective", "left out: there is nothing to predict"))
                break
            seen = {picture.pixels.tobytes() for picture in pictures} if epoch < 0 else set()
            pictures += [picture for picture in self._pictures(instance, epoch) if picture.pixels.tobytes() not in seen]
            if epoch == epochs[0]:
                strips += self._strips(instance, "")
                facts += self._facts(instance)
        return SheetExample(row, facts, pictures, strips)

    def _pictures(self, instance: Mapping[str, Any], epoch: int) -> Iterator[Picture]:
        """The images of an instance, masked patches in gray."""
        fields = self.info.images()
        for name, value in instance.items():
            if not fields or not (isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype.kind == "f"):
                continue
            field = next((f for f in fields if f.name == name), fields[0])
            pixels = field.displayed(value).copy()
            if self.patch and "masked" in instance:
                across = field.width // self.patch
                for at in np.asarray(instance["masked"]).tolist():
                    y, x = at // across * self.patch, at % across * self.patch
                    pixels[y : y + self.patch, x : x + self.patch] = _GRAY
            yield Picture(pixels, self._caption(instance, epoch))

    def _caption(self, instance: Mapping[str, Any], epoch: int) -> str:
        label = self.info.fields.get("label")
        if "label_weight" in instance and isinstance(label, LabelField):
            own, other = (label.class_name(int(instance[name])) for name in ("label", "other_label"))
            return f"{own} {instance['label_weight']:.2f} + {other}"
        return f"epoch {epoch}" if epoch >= 0 else "as evaluated"

    def _strips(self, instance: Mapping[str, Any], prefix: str) -> Iterator[Strip]:
        """The sequences of tokens of an instance, with the positions that are predicted."""
        if not self.info.tokenized():
            return
        targets = [value for value in instance.values() if isinstance(value, Targets)]
        for name, value in instance.items():
            if isinstance(value, Mapping):
                yield from self._strips(value, f"{prefix}{name}.")
            elif isinstance(value, Sequences):
                for number, part in enumerate(value.parts, 1):
                    yield Strip(f"{prefix}{name} {number}", self._tokens(name, part))
            elif isinstance(value, Targets):
                yield Strip(f"{prefix}{name}: targets in {value.of}", self._tokens(name, value.ids))
            elif self._has_ids(instance, value):
                marked = frozenset(int(at) for one in targets if one.of == name for at in one.at)
                some = len(marked) < len(ids_of(value))  # a language model predicts all of them
                yield Strip(f"{prefix}{name}", self._tokens(name, value), marked if some else frozenset())

    def _has_ids(self, instance: Mapping[str, Any], value: Any) -> bool:
        """Whether a value has ids of tokens, and not indices of patches."""
        if isinstance(value, MarkedIds):
            return True
        images = any(isinstance(other, np.ndarray) and other.ndim == 3 for other in instance.values())
        return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iu" and not images

    def _tokens(self, name: str, ids: Any) -> list[str]:
        field = self.info.fields.get(name)
        tokenized = field if isinstance(field, TokenizedField) else self._generated() or self.info.tokenized()[0]
        tokenizer = self.codec.tokenizers[tokenized.space]
        return tokenizer.tokens([i if i < tokenizer.vocab else tokenized.special.unk for i in ids_of(ids).tolist()])

    def _generated(self) -> TokenizedField | None:
        target = self.info.fields.get(self.info.target)
        return target if isinstance(target, TokenizedField) else None

    def _facts(self, instance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The numbers of an instance."""
        label = self.info.fields.get("label")
        for name, value in instance.items():
            if isinstance(value, int | float | np.integer | np.floating) and name != "label_weight":
                classes = label if isinstance(label, LabelField) and name.endswith("label") else None
                yield f"instance: {name}", f"{value:g}" if classes is None else classes.class_name(int(value))
