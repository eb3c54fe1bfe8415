"""Mixtures: several sources with the same fields, sampled into one stream."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Info
from weft.core.options import Count, NonNegative, OptionError, Positive
from weft.core.registry import Build, block
from weft.data.mixing import MixtureDataset, proportions, quotas
from weft.data.several import Texts, bounds, merge, open_together, shared_tokenizers
from weft.data.sources.text_source import SPLITS, MissingSplitError

NAME = re.compile(r"[\w-]{1,100}")


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name of a source that could not be part of a file name or of the name of a metric."""
    if bad := [name for name in names if not NAME.fullmatch(name)]:
        raise ValueError(
            f"the name of a source may have letters, digits, - and _ only, and at most 100 characters; not {bad[0][:100]!r}"
        )


@block("mixture")
class Mixture(Data):
    """Several sources with the same fields, sampled into one stream: multi-task text-to-text training, several languages.

    p_i = w_i / sum_j w_j, or p_i ~ min(n_i, K)^(1/T) for sources of n_i training examples

    An epoch has as many examples as the sources together (at most K of each), p_i of them from source i. Each example of a source
    occurs once before any occurs again; batches mix sources and have examples of similar length. Each source is evaluated by
    itself: its metrics are named ``name.metric``. Sources of one id space share a tokenizer, trained on all of them.

    Raffel et al. 2020 (examples-proportional mixing with a temperature), https://arxiv.org/abs/1910.10683

    Args:
        of: The sources by name. A mixture among them is one source, and has no shares of its own.
        weights: Relative frequency of each source; 0 = the source is only evaluated. None = by size and temperature.
        temperature: T: 1 = in proportion to the sizes; the larger, the more equal the sources.
        max_examples: K: the size counted at most for a source, for all or by name; all examples are still used.

    Example:
        >>> from functools import partial
        >>> from weft.data import ParallelText
        >>> languages = {name: partial(ParallelText, train=(f"train.{name}", "train.en")) for name in ("de", "fr")}
        >>> data = Mixture(of=languages, weights={"de": 2, "fr": 1})
        >>> list(data.declare().fields), data.parts()
        (['source', 'target'], ('de', 'fr'))
    """

    def __init__(
        self,
        *,
        of: dict[str, Build[Data]],
        weights: dict[str, NonNegative] | None = None,
        temperature: Positive = 1.0,
        max_examples: Count | dict[str, Count] | None = None,
    ):
        super().__init__()
        if not of:
            raise OptionError("of", "a mixture needs at least one source")
        check_names(of)
        self.of, self.weights, self.temperature, self.max_examples = of, weights, temperature, max_examples
        if not (math.isfinite(temperature) and temperature > 0):
            raise OptionError("temperature", f"temperature must be a finite number above 0, not {temperature}")
        if weights is not None and (temperature != 1 or max_examples is not None):
            other = "temperature" if temperature != 1 else "max_examples"
            raise OptionError("weights", f"weights are given, so {other} has no effect; remove one of them")
        self._check_by_name("weights", weights, every=True)
        self._check_by_name("max_examples", max_examples if isinstance(max_examples, dict) else None)
        if weights is not None:
            if bad := [name for name, w in weights.items() if not (math.isfinite(w) and w >= 0)]:
                raise OptionError(
                    "weights", f"the weight of {bad[0]!r} must be a finite number of at least 0, not {weights[bad[0]]}"
                )
            if not any(weights.values()):
                raise OptionError("weights", "all weights are 0; at least one source must be trained")
        self.sources = {name: build() for name, build in of.items()}
        for name, source in self.sources.items():
            if isinstance(source, Mixture) and source.has_shares:
                raise OptionError(
                    "of",
                    f"the shares of the mixture {name!r} have no effect inside another mixture; name its sources in this one",
                )

    @property
    def has_shares(self) -> bool:
        """Whether options other than the defaults decide how often each source is sampled."""
        return self.weights is not None or self.temperature != 1 or self.max_examples is not None

    def _check_by_name(self, option: str, given: Mapping[str, Any] | None, every: bool = False) -> None:
        if given is None:
            return
        if unknown := [name for name in given if name not in self.of]:
            raise OptionError(option, f"{option} names {unknown[0]!r}, but the mixture has the sources {', '.join(self.of)}")
        if missing := [name for name in self.of if every and name not in given]:
            raise OptionError(option, f"{option} has no value for {missing[0]!r}; give each source one, 0 = it is only evaluated")

    def declare(self) -> Info:
        shared_tokenizers(self.sources)
        return merge({name: source.declare() for name, source in self.sources.items()}, "the sources of a mixture")

    def check_files(self) -> None:
        for source in self.sources.values():
            source.check_files()

    def tokenizers(self) -> dict[str, Tokenizer]:
        return shared_tokenizers(self.sources)

    def parts(self) -> tuple[str, ...]:
        return tuple(self.of)

    def training_key(self) -> Any:
        keys = [source.training_key() for source in self.sources.values()]
        return None if any(key is None for key in keys) else keys

    def training_texts(self, folder: Path, progress: ProgressCallback | None = None) -> dict[str, Iterable[str]]:
        found: dict[str, list[Iterable[str]]] = {}
        for number, source in enumerate(self.sources.values()):
            own = folder / str(number)
            own.mkdir()
            for space, texts in source.training_texts(own, progress).items():
                found.setdefault(space, []).append(texts)
        return {space: Texts(texts) for space, texts in found.items()}

    def open(
        self,
        codec: Codec | None = None,
        *,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        splits: Sequence[str] = (),
        progress: ProgressCallback | None = None,
    ) -> Corpus:
        absent: list[MissingSplitError] = []

        def opens(source: Data, own: Codec | None, known: Mapping[str, Tokenizer]) -> Corpus:
            try:
                return source.open(own, tokenizers=known, splits=splits, progress=progress)
            except MissingSplitError as error:
                absent.append(error)
                return Corpus(own or Codec(Info({}), {}), {}, {})

        codecs = None if codec is None else {name: self.codec_of(codec, name) for name in self.sources}
        corpora = open_together(self.sources, codecs, tokenizers=tokenizers, opens=opens, progress=progress)
        opened = {name: corpus for name, corpus in corpora.items() if corpus.splits}
        if not opened:
            raise absent[0]
        if codec is None:
            info = merge({name: corpus.codec.info for name, corpus in opened.items()}, "the sources of a mixture")
            codec = Codec(info, {s: t for corpus in opened.values() for s, t in corpus.codec.tokenizers.items()})
        names = dict.fromkeys(split for corpus in opened.values() for split in corpus.splits)
        datasets = {split: self._mixed(split, opened) for split in sorted(names, key=_position)}
        ledgers = {split: _sums(corpus.ledger.get(split) for corpus in opened.values()) for split in datasets}
        by_source = {f"{name}.{split}": counts for name, corpus in opened.items() for split, counts in corpus.ledger.items()}
        return Corpus(codec, datasets, ledgers | by_source)

    def codec_of(self, codec: Codec, name: str) -> Codec:
        """Return the codec of a source: fields of the mixture with the upper bounds of the source's own."""
        declared = self.sources[name].declare()
        fields = {
            field.name: replace(codec.info[field.name], **{name: getattr(field, name) for name in bounds(field)})
            for field in declared.fields.values()
        }
        own = Info(fields, declared.target, declared.data, declared.hints)
        return Codec(own, {space: codec.tokenizers[space] for space in self.sources[name].tokenizers()})

    def _mixed(self, split: str, opened: Mapping[str, Corpus]) -> MixtureDataset:
        """Return a split of all sources that have it. That of training has quotas."""
        found = {name: corpus.splits[split] for name, corpus in opened.items() if split in corpus.splits}
        if split != "train":
            return MixtureDataset(found)
        if missing := [name for name in self.sources if name not in found and (self.weights is None or self.weights[name])]:
            raise ValueError(f"the source {missing[0]!r} has no split train; give it one, or the weight 0")
        sizes = [len(dataset) for dataset in found.values()]
        caps = [self._cap(name) for name in found]
        weights = None if self.weights is None else [self.weights[name] for name in found]
        shares = proportions(sizes, weights=weights, temperature=self.temperature, max_examples=caps)
        examples = sum(min(size, cap or size) for size, cap, share in zip(sizes, caps, shares, strict=True) if share)
        return MixtureDataset(found, quotas(shares, examples))

    def _cap(self, name: str) -> int | None:
        return self.max_examples.get(name) if isinstance(self.max_examples, dict) else self.max_examples


def _position(split: str) -> tuple[int, str]:
    return (SPLITS.index(split) if split in SPLITS else len(SPLITS), split)


def _sums(ledgers: Iterable[Any]) -> dict[str, int]:
    """Return the counts of several sources added up."""
    found: dict[str, int] = {}
    for counts in ledgers:
        for name, value in counts.items() if isinstance(counts, Mapping) else ():
            if isinstance(value, int):
                found[name] = found.get(name, 0) + value
    return found
