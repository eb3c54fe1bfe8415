"""Several sources as one: a tokenizer for each id space that they share, and the fields that they have together."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import ClassField, Field, Info, TextField, TokenizedField
from weft.core.io import read_json, write_json
from weft.data import cache

_BOUNDS = ("max_length", "max_words")
"""Properties of a text field that may differ between sources: upper bounds, of which the largest holds."""
_LAYOUT = ("words",)
"""Properties that may differ between named sources, but not in a mixture."""
FORMAT = 1


def shared_tokenizers(sources: Mapping[str, Data]) -> dict[str, Tokenizer]:
    """Return untrained tokenizers by id space. Raises ValueError where two sources configure one id space differently."""
    found: dict[str, tuple[str, Tokenizer]] = {}
    for name, source in sources.items():
        for space, tokenizer in source.tokenizers().items():
            first, other = found.setdefault(space, (name, tokenizer))
            if other.spec() != tokenizer.spec():
                raise ValueError(
                    f"the sources {first!r} and {name!r} share the id space {space!r}, but their tokenizers differ "
                    f"({_difference(other.spec(), tokenizer.spec())}); use the same in both: tokenizer: ${{...}} refers to "
                    "another in the recipe"
                )
    return {space: tokenizer for space, (_, tokenizer) in found.items()}


def _difference(one: object, other: object) -> str:
    """Two specifications of tokenizers, or the options in which they differ."""
    match one, other:
        case [name, dict(options)], [same, dict(others)] if name == same:
            names = [option for option in options if options[option] != others.get(option)]
            return ", ".join(f"{option}: {options[option]!r} and {others.get(option)!r}" for option in names)
        case [name, *_], [another, *_]:
            return f"{name} and {another}"
    return "their options"


def merge(infos: Mapping[str, Info], same_fields: str = "") -> Info:
    """Return the fields of several sources as those of one, on which a structure is built.

    Fields of one name must agree, except for the upper bounds of text lengths: the largest holds.

    Args:
        infos: The declaration of each source, by name.
        same_fields: Who needs the same fields in all sources, for the message; "" = nobody.
    """
    (first, info), *others = infos.items()
    if not others:
        return info
    fields, owner = dict(info.fields), dict.fromkeys(info.fields, first)
    for name, other in others:
        if same_fields and set(other.fields) != set(info.fields):
            raise ValueError(
                f"{same_fields} must have the same fields, but {first!r} has {_list(info.fields)} and {name!r} has "
                f"{_list(other.fields)}; text-to-text turns labels, tags and answers into texts"
            )
        for field in other.fields.values():
            known = fields.setdefault(field.name, field)
            _check_same(known, field, owner.setdefault(field.name, name), name, bool(same_fields))
            fields[field.name] = _widest(known, field)
    data = " + ".join(dict.fromkeys(info.data for info in infos.values()))
    return Info(fields, info.target, data, {name: hint for one in infos.values() for name, hint in one.hints.items()})


def _widest(one: Field, other: Field) -> Field:
    if not (isinstance(one, TokenizedField) and isinstance(other, TokenizedField)):
        return one
    changed: dict[str, Any] = {name: max(getattr(one, name), getattr(other, name)) for name in bounds(one)}
    if isinstance(one, TextField) and isinstance(other, TextField):
        changed["words"] = one.words and other.words
    return replace(one, **changed)


def bounds(field: Field) -> list[str]:
    """Return the names of the properties of a field that may differ between sources: upper bounds."""
    return [name for name in _BOUNDS if isinstance(field, TokenizedField) and hasattr(field, name)]


def _check_same(one: Field, other: Field, first: str, second: str, strict: bool) -> None:
    """Raise ValueError where two fields of a name cannot be one field."""
    a, b = one.to_json(), other.to_json()
    left_out = {*bounds(one), *(() if strict else _LAYOUT)}
    differ = [name for name in a if name not in left_out and a[name] != b.get(name)]
    if not differ:
        return
    if "labels" in differ and isinstance(one, ClassField) and isinstance(other, ClassField):
        raise ValueError(
            f"the field {one.name!r} has other classes in {second!r} ({_list(other.labels)}) than in {first!r} "
            f"({_list(one.labels)}); set the same labels in both, or wrap both in text-to-text, where classes are texts"
        )
    option = differ[0]
    hint = "; wrap the source in text-to-text" if strict and option in ("words", "kind") else "; they must agree"
    raise ValueError(
        f"the field {one.name!r} has {option} {b.get(option)!r:.60} in {second!r}, but {a[option]!r:.60} in {first!r}{hint}"
    )


def _list(names: Iterable[str]) -> str:
    found = list(map(str, names))
    return ", ".join(found[:8]) + (", ..." if len(found) > 8 else "") or "none"


def open_together(
    sources: Mapping[str, Data],
    codecs: Mapping[str, Codec] | None = None,
    *,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    opens: Callable[[Data, Codec | None, Mapping[str, Tokenizer]], Corpus],
    progress: ProgressCallback | None = None,
) -> dict[str, Corpus]:
    """Open several sources. A tokenizer of an id space of several of them is trained on the training texts of all of them.

    Args:
        sources: The sources by name.
        codecs: The codecs of an existing run; None = learn them.
        tokenizers: Trained tokenizers by id space to reuse when there are no codecs.
        opens: Opens one source, from its codec or tokenizers.
        progress: Called with the progress.
    """
    if codecs is not None:
        return {name: opens(source, codecs[name], {}) for name, source in sources.items()}
    trained = dict(tokenizers or {})
    untrained = shared_tokenizers(sources)
    using = {space: [name for name, source in sources.items() if space in source.tokenizers()] for space in untrained}
    wanted = {space: untrained[space] for space, names in using.items() if len(names) > 1 and space not in trained}
    if wanted:
        trained |= train_together(sources, wanted, progress)
    return {name: opens(source, None, trained) for name, source in sources.items()}


def train_together(
    sources: Mapping[str, Data], tokenizers: dict[str, Tokenizer], progress: ProgressCallback | None = None
) -> dict[str, Tokenizer]:
    """Train tokenizers on the training texts of several sources, or load them from the cache.

    Args:
        sources: The sources by name.
        tokenizers: Untrained tokenizers by id space.
        progress: Called with the progress.
    """
    keys = [source.training_key() for source in sources.values()]
    if any(key is None for key in keys):
        with tempfile.TemporaryDirectory(prefix="weft-") as folder:
            _train(sources, tokenizers, Path(folder), progress)
        return tokenizers
    specs = {space: tokenizer.spec() for space, tokenizer in tokenizers.items()}
    with cache.entry(cache.key_of("tokenizers", FORMAT, specs, keys)) as folder:
        try:
            read_json(folder / "trained.json")
            for space, tokenizer in tokenizers.items():
                tokenizer.load(folder / f"tokenizer-{space}.json")
        except (OSError, ValueError, TypeError, KeyError):  # missing, unfinished or damaged
            with tempfile.TemporaryDirectory(dir=folder) as samples:
                _train(sources, tokenizers, Path(samples), progress)
            for space, tokenizer in tokenizers.items():
                tokenizer.save(folder / f"tokenizer-{space}.json")
            write_json(folder / "trained.json", {"format": FORMAT})
    return tokenizers


def _train(
    sources: Mapping[str, Data], tokenizers: Mapping[str, Tokenizer], folder: Path, progress: ProgressCallback | None
) -> None:
    texts: dict[str, list[Iterable[str]]] = {space: [] for space in tokenizers}
    for number, source in enumerate(sources.values()):
        own = folder / str(number)
        own.mkdir()
        for space, found in source.training_texts(own, progress).items():
            if space in texts:
                texts[space].append(found)
    for space, tokenizer in tokenizers.items():
        if progress is not None:
            progress(f"training the tokenizer of {space}", 0, 0)
        tokenizer.train(Texts(texts[space]))


class Texts:
    """The texts of several iterables one after another; may be iterated over several times.

    Args:
        parts: The iterables.

    Example:
        >>> list(Texts([["a", "b"], ["c"]]))
        ['a', 'b', 'c']
    """

    def __init__(self, parts: Sequence[Iterable[str]]):
        self.parts = parts

    def __iter__(self) -> Iterator[str]:
        return itertools.chain.from_iterable(self.parts)
