"""Published models: read from their folder into our structures, and written back."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from weft.batch import PLACES, Field, Info
from weft.blocks import Interpolated, Learned
from weft.catalog import Build, composition, identity, is_composition, name_of, options
from weft.choices import Model
from weft.data.published import Published as PublishedTokenizer
from weft.files import check_free, read_json, whole_folder, write_json
from weft.hub import find_model
from weft.models.layout import LAYOUTS, Config, Layout, Task, at
from weft.models.names import Rule, Translated, their_name, to_ours, to_theirs
from weft.recipe.tree import nearest
from weft.slots import Pooler, Structure, Tokenizer
from weft.unfilled import Unfilled

CONVERT = (
    "weft reads only safetensors, as a pickle can run code. Where you trust the file, convert it with the package transformers: "
    "transformers.{kind}.from_pretrained(folder).save_pretrained(new_folder, safe_serialization=True), and copy the tokenizer's "
    "files"
)


class Published:
    """A published model's folder, opened: its config, the names of its tensors, and our structure for it.

    Args:
        name: A folder, a packaged model's name, or a hub's.
    """

    def __init__(self, name: str | Path):
        self.path = find_model(name)
        if not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; give the folder of a published model (config.json and model.safetensors)")
        file = self.path / "config.json"
        if not file.is_file():
            raise ValueError(f"{self.path} is not the folder of a published model: it has no config.json")
        config = read_json(file)
        if not isinstance(config, dict):
            raise ValueError(f"{file}: must be an object of JSON, with the model's sizes by their names")
        self.config, kind = Config(config), str(config.get("model_type"))
        if kind not in LAYOUTS:
            raise ValueError(f"{file}: model_type {kind!r} is not known{nearest(kind, LAYOUTS)} (known: {', '.join(LAYOUTS)})")
        with self._named():
            self.config.check()
        self.layout: Layout = LAYOUTS[kind]

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """What is refused inside says of which folder it is."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None

    # ---------------------------------------------------------------------------------------------------------- files

    @cached_property
    def places(self) -> dict[str, Path]:
        """In which file each tensor is, by the name it has there."""
        index, whole = self.path / "model.safetensors.index.json", self.path / "model.safetensors"
        if index.is_file():
            read = read_json(index)
            parts = read.get("weight_map") if isinstance(read, dict) else None
            if not isinstance(parts, dict):
                raise ValueError(f"{index}: must be an object of JSON, with the tensors' files by their names in weight_map")
            for name, file in parts.items():
                if not isinstance(file, str) or Path(file).name != file:
                    raise ValueError(f"{index}: weight_map has {file!r} for {name}, but only a file beside it is read")
            places = {name: self.path / file for name, file in parts.items()}
            if missing := sorted({str(p.name) for p in places.values() if not p.is_file()}):
                raise ValueError(f"{index} names {', '.join(missing)}, but there is no such file beside it")
            return places
        if not whole.is_file():
            pickles = [p.name for ending in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in sorted(self.path.glob(ending))]
            if pickles:
                advice = CONVERT.format(kind=(self.config.get("architectures") or ["AutoModel"])[0])  # another class has no head
                raise ValueError(f"{self.path} holds its weights in a pickle only ({', '.join(pickles)}). {advice}")
            raise ValueError(f"{self.path} has no model.safetensors")
        with _opened(whole) as file:
            return dict.fromkeys(file.keys(), whole)

    @cached_property
    def weights(self) -> list[str]:
        """The tensors' names in the file, without constants."""
        return [name for name in sorted(self.places) if not any(fnmatch.fnmatchcase(name, glob) for glob in self.layout.ignored)]

    @cached_property
    def names(self) -> dict[str, str]:
        """The tensors' names, as a model with a head has them -> as they are in the file."""
        prefix, body = self.layout.prefix, self.layout.body
        bare = not any(name.startswith(prefix) for name in self.places)
        named: dict[str, str] = {}
        for name in self.weights:  # of an old name and the new one, transformers takes the first
            named.setdefault(_renamed(prefix + name if bare and name.split(".")[0] in body else name), name)
        return named

    def tensors(self) -> dict[str, Tensor]:
        """All tensors in single precision, by their full names, in memory of their own."""
        found: dict[str, Tensor] = {}
        for place in sorted(set(self.places.values())):
            with _opened(place) as file:
                there = set(file.keys())
            for name, own in self.names.items():
                if self.places[own] == place:
                    if own not in there:
                        raise ValueError(f"{place} does not hold {own}, which the index says is in it")
                    found[name] = _read(own, place)
        return found

    # ------------------------------------------------------------------------------------------------------ structure

    @property
    def task(self) -> str:
        """What it was published for."""
        names, known = self.config.get("architectures"), self.layout.tasks
        if names and not self._tasks:
            raise ValueError(
                f"{self.path}: config.json: architectures is {names}, but known are: {', '.join(known)}; "
                f"task says what else it shall be for: {', '.join(dict.fromkeys(known.values()))}"
            )
        return self._tasks[0] if names else next(iter(known.values()))

    @property
    def _tasks(self) -> list[str]:
        """What its config.json says that it is for, as far as that is known."""
        known = self.layout.tasks
        return [known[name] for name in self.config.get("architectures") or [] if name in known]

    def structure(self, task: str | None = None) -> Build[Structure]:
        """Our structure for it; ``task`` is what it shall be for, by default what it was published for."""
        task = task or self.task
        with self._named():
            return self.layout.read(self.config, task, self.names)

    def info(self, structure: Build[Structure], task: str | None = None) -> Info:
        """The fields that the structure for this task is built for, as far as the config tells."""
        task = task or self.task
        with self._named():
            return self._info(name_of(structure), task)

    def _info(self, name: str, task: str) -> Info:
        read = self.layout.field(self.config)
        if name == "seq2seq":
            return Info({"source": replace(read, name="source"), "target": replace(read, name="target")}, "target")
        if name == "span-reader":
            texts = {name: replace(read, name=name) for name in ("question", "context")}
            return Info({**texts, "answer": Field("answer", 2, "span", length=1, space="context")}, "context")
        if task == "choose":
            choices = {"question": replace(read, name="question"), "choices": replace(read, name="choices", kind="texts")}
            right = Field("label", len(PLACES), "label", space="label", labels=PLACES)
            return Info({**choices, "label": right}, "question")
        fields = {read.name: read}
        if task == "classify":
            fields["label"] = self.config.label()
        if task == "tag":
            labels = self.config.labels()
            fields["tags"] = Field("tags", len(labels), "tags", labels=labels)
        return Info(fields, read.name)

    def our_tensors(self, structure: Build[Structure]) -> Translated:
        """Its tensors under the names that our structure has for them, and the names that no rule knows."""
        tensors, other = self._with_one_bias(self.tensors())
        found = to_ours(self._without_copies(tensors, structure), self.layout.rules(structure))
        found = replace(found, unknown=[*found.unknown, *other])
        table, said = found.tensors.get("embedder.parts.0.weight"), self.config.get("vocab_size")
        if table is not None and said is not None and len(table) != said:
            raise ValueError(f"{self.path}: config.json: vocab_size is {said}, but there are vectors of {len(table)} tokens")
        return found

    def give(self, model: nn.Module, structure: Build[Structure], found: Translated, *, whole: bool = False) -> Taken:
        """Copy its weights, found for a structure, into a model that was built of it; see ``take``."""
        own = model.state_dict()
        zero = [name for name in self._zero(found) if name in own]
        source = {name: torch.zeros(own[name].shape, dtype=own[name].dtype) for name in zero} | found.tensors
        cut = not whole and any(_longer(source[n], own[n]) for n in BY_ID if n in source and n in own)
        ids = self.ids if cut else None
        taken = take(model, source, self.path, self.layout.rules(structure), unknown=found.unknown, whole=whole, ids=ids)
        return replace(taken, unused=[*taken.unused, *sorted({*self.weights} - {*self.names.values()})])

    @cached_property
    def ids(self) -> int | None:
        """How many ids its tokenizer gives; None where it has none."""
        try:
            return PublishedTokenizer(from_=str(self.path)).vocab
        except ValueError:
            return None

    def build(self, structure: Build[Structure], info: Info, found: Translated) -> Structure:
        """The structure. Where each of its tensors was found, they are on the meta device: ``give`` then puts those found in
        their place, and nothing is drawn at random nor held twice."""
        with torch.device("meta"), Unfilled():
            model = structure(info)
        own = {name for name, _ in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())}
        return model if own <= {*found.tensors, *self._zero(found)} else structure(info)

    def _zero(self, found: Translated) -> list[str]:
        """Our tensors that are 0 where those beside them were found."""
        return [ours for ours, beside in self.layout.zero if beside in found.tensors]

    def _with_one_bias(self, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
        """The bias of the head for hidden tokens has two names, usually of one tensor. Of two, transformers computes
        with that of the decoder; the other is told of where it differs."""
        twice = {
            name: name.removesuffix("decoder.bias") + "bias"
            for name in tensors
            if name.endswith(".decoder.bias") and any(fnmatch.fnmatchcase(name, glob) for glob in self.layout.tied)
        }
        other = [one for name, one in twice.items() if one in tensors and not torch.equal(tensors[one], tensors[name])]
        kept = {name: tensor for name, tensor in tensors.items() if name not in twice}
        return kept | {one: tensors[name] for name, one in twice.items()}, other

    def _without_copies(self, tensors: dict[str, Tensor], structure: Build[Structure]) -> dict[str, Tensor]:
        """The tokens' vectors once, under their own name: files have them under any of the names that are tied to it, old ones
        under several. Those must be the same."""
        own = their_name("embedder.parts.0.weight", self.layout.rules(structure))
        tied = _tied(options(structure).get("head")) or (own not in tensors and self.config.get("tie_word_embeddings", True))
        globs = [*self.layout.copies, *(self.layout.tied if tied else ())]
        copies = [name for name in tensors if any(fnmatch.fnmatchcase(name, glob) for glob in globs)]
        if not copies:
            return tensors
        table = tensors.get(own, tensors[copies[0]])
        for name in copies:
            if not torch.equal(tensors[name], table):
                raise ValueError(
                    f"{self.path}: the config says that the head is tied to the tokens' vectors (tie_word_embeddings), "
                    f"but {name} differs from them"
                )
        return {own: table} | {name: tensor for name, tensor in tensors.items() if name not in copies}


def _renamed(name: str) -> str:
    """Files of the first years call a norm's weight and bias gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _tied(head: Any) -> bool:
    return head is not None and name_of(head) == "tied"


def _opened(path: Path) -> Any:
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None


def _read(name: str, path: Path) -> Tensor:
    """One tensor. A file is mapped to memory, and what was read of it stays there until it is closed: so it is opened anew."""
    with _opened(path) as file:
        try:
            tensor = file.get_tensor(name)
        except (SafetensorError, RuntimeError) as error:
            raise ValueError(f"{path}: {name} cannot be read: {error}") from None
        return tensor.to(torch.float32 if tensor.is_floating_point() else tensor.dtype, copy=True)


# ----------------------------------------------------------------------------------------------------------------- taking


@dataclass(frozen=True)
class Taken:
    """What came of taking weights: how many of ours have one now, which have none, and which of theirs had no place."""

    taken: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self) -> str:
        text = f"{len(self.taken)} of {len(self.taken) + len(self.new)} tensors taken"
        for title, names in (("new", self.new), ("not used", self.unused)):
            if names:
                text += f"; {title}: {_some(names)}"
        return text


BODY = ("embedder.", "target_embedder.", "encoder.", "decoder.")
"""Parts that must have all their weights, or the published model is not this one; heads and poolers may be new."""


def _needed(name: str) -> bool:
    return name.startswith(BODY) and not name.startswith("encoder.mix.")  # no published model mixes its layers


BY_ID = ("embedder.parts.0.weight", "head.bias", "head.out.weight", "head.out.bias")
"""Tensors with a row for each id. Published ones may have rows for ids that their tokenizer never gives: those are left out."""


def take(
    model: nn.Module,
    source: Mapping[str, Tensor],
    where: str | Path,
    rules: Sequence[Rule] = (),
    *,
    unknown: Sequence[str] = (),
    whole: bool = False,
    ids: int | None = None,
) -> Taken:
    """Copy tensors of the same name into a structure. Raises ValueError that lists what is missing or does not fit.

    Args:
        model: The structure.
        source: Tensors by our names.
        where: Where they are from.
        rules: Their names there.
        unknown: Names there that no rule knows.
        whole: Whether nothing of the body may be left over, no layer and no id.
        ids: How many ids the tokenizer there gives: a structure with as many or more may do without the rows after them.
    """
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    kept = set(model.state_dict())
    own = {name: tensor for name, tensor in own.items() if name in kept}

    def shown(name: str) -> str:
        theirs = their_name(name, rules)
        return name if theirs == name else f"{theirs} ({name})"

    for place, module in model.named_modules():
        if isinstance(module, Interpolated) and (name := f"{place}.weight") in source:
            source = {**source, name: module.fitted(source[name])}
    if ids is not None:
        fitting = (n for n, t in own.items() if n in source and n in BY_ID and _longer(source[n], t) and len(t) >= ids)
        source = {**source, **{n: source[n][: len(own[n])] for n in fitting}}
    taken, new = [n for n in own if n in source], [n for n in own if n not in source]
    left = [n for n in source if n not in own]
    wrong = [why for n in taken if (why := _unfit(shown(n), source[n], own[n]))]
    if any(source[n].shape[1:] == own[n].shape[1:] and len(source[n]) != len(own[n]) for n in BY_ID if n in taken):
        wrong.append("its rows are the ids of another tokenizer: read the data with the one that it came with")
    missing = [shown(n) for n in new if _needed(n)]
    if len(missing) == len([n for n in own if _needed(n)]):
        wrong.append("nothing of it has a place here")
    elif missing:
        wrong.append(f"missing: {_some(missing)}")
    elif whole and (over := [their_name(n, rules) for n in left if n.startswith(BODY)] + _of_body(unknown, rules)):
        has, said = _layers(source), _layers(own)
        wrong += [f"config.json says {said} layers, the file has {has}"] if has != said else []
        wrong.append(f"no place for: {_some(over)}")
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ValueError(f"{where}: its weights do not fit this structure: {'; '.join(wrong[:8])}{more}")
    for name in taken:
        _put(model, name, own[name], source[name])
    return Taken(taken, new, [*dict.fromkeys(their_name(n, rules) for n in left), *unknown])


def _put(model: nn.Module, name: str, ours: Tensor, theirs: Tensor) -> None:
    """Give one of a structure's tensors its numbers, or be it where it has no memory yet."""
    if not ours.is_meta:
        ours.detach().copy_(theirs)
        return
    whole = theirs.untyped_storage().nbytes() == theirs.nbytes
    tensor = theirs.to(ours.dtype, copy=not whole)  # a part of another tensor would keep all of it
    part, _, last = name.rpartition(".")
    new = nn.Parameter(tensor, ours.requires_grad) if isinstance(ours, nn.Parameter) else tensor
    setattr(model.get_submodule(part), last, new)


def _unfit(name: str, theirs: Tensor, ours: Tensor) -> str | None:
    """Why a tensor cannot be taken."""
    if theirs.shape != ours.shape:
        return f"{name} has shape {tuple(theirs.shape)}, here it is {tuple(ours.shape)}"
    if theirs.is_floating_point() != ours.is_floating_point():
        return f"{name} holds {str(theirs.dtype).removeprefix('torch.')}, here it is {str(ours.dtype).removeprefix('torch.')}"
    # A sum is finite only if all are; it needs no memory, and can be infinite otherwise only for very large numbers.
    finite = theirs.sum().isfinite() or theirs.isfinite().all()
    return None if finite else f"{name} holds NaN or infinite numbers"


def _of_body(unknown: Sequence[str], rules: Sequence[Rule]) -> list[str]:
    """Those that stand where the body's tensors are: ``bert.`` or ``encoder.``."""
    roots = {rule.theirs.split(".")[0] for rule in rules if rule.ours[0].startswith(BODY)}
    return [name for name in unknown if name.split(".")[0] in roots]


def _layers(names: Iterable[str]) -> int:
    return len({found[0] for name in names if (found := re.match(r"\w+\.stack\.layers\.\d+\.", name))})


def _longer(theirs: Tensor, ours: Tensor) -> bool:
    return theirs.ndim == ours.ndim and theirs.shape[1:] == ours.shape[1:] and len(theirs) > len(ours)


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def begin(model: Structure, structure: Build[Structure]) -> dict[str, Taken]:
    """Give a structure, and those that are parts of it, the weights that their choices ``weights`` name: what was taken, by
    the place it is from."""
    structure = structure() if is_composition(structure) else structure
    found: dict[str, Taken] = {}
    for name, parts in model.inner().items():
        for part in [parts] if isinstance(parts, Structure) else parts:
            found |= begin(part, options(structure)[name])
    return found if model.weights is None else found | {model.weights: _begin(model, structure, Path(model.weights))}


def _begin(model: nn.Module, structure: Build[Structure], folder: Path) -> Taken:
    if not (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():  # a run's
        from weft.learning import read_weights

        return take(model, read_weights(folder / "model.safetensors"), folder)
    published = Published(folder)
    return published.give(model, structure, published.our_tensors(structure))


# ---------------------------------------------------------------------------------------------------------- whole models


@composition("pretrained")
def pretrained(*, from_: Model, task: Task | None = None, pooler: Build[Pooler] | None = None) -> Build[Structure]:
    """A published model with its weights, as our blocks.

    The structure is what its config.json says; what the task needs and the file does not have begins at random.

    Args:
        from_: A folder in the Hugging Face layout, a packaged model (minilm), or a name on the hub (owner/model@revision).
        task: What it shall be for: encode, fill, relate, judge, classify, tag, choose, answer, write; None = what it was
            published for.
        pooler: Makes one vector of a text; None = as published.

    Example:
        >>> pretrained(from_="minilm", task="classify").keywords["dim"]  # doctest: +SKIP
        384
    """
    published = Published(from_)
    structure = published.structure(task)
    if pooler is not None:
        if "pooler" not in options(structure):
            raise ValueError(f"a {name_of(structure)} has no pooler; leave it out")
        structure = partial(structure, pooler=pooler)
    return partial(structure, weights=str(published.path.resolve()))


@dataclass
class Loaded:
    """A published model in our hands.

    Args:
        model: The structure, with its weights, in evaluation mode.
        structure: The choices it was built of.
        info: The fields it was built for.
        published: Where it came from.
        taken: Which weights it has.
    """

    model: Structure
    structure: Build[Structure]
    info: Info
    published: Published
    taken: Taken

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The one beside it. Raises ValueError where there is none, or where it gives ids that the model does not have."""
        place, texts = self.published.path, self.info.tokenized()
        if not texts:
            raise ValueError(f"{place} reads images: it has no tokenizer")
        found = PublishedTokenizer(from_=str(place))
        if found.vocab > texts[0].vocab:
            raise ValueError(f"{place}: its tokenizer has {found.vocab} ids, but config.json: vocab_size is {texts[0].vocab}")
        return found

    def save(self, folder: str | Path) -> Path:
        """Write the model as it is now in the layout it came from, with all that was said of it and stood beside it.

        That is the rest of its config.json (special ids, the classes' names), its tokenizer, how it generates, how its vectors
        are pooled: the package transformers loads the folder and uses it.

        Args:
            folder: One that is not there yet, or is empty; it appears when all is written.
        """
        old = self.published.path
        check_free(Path(folder))
        with whole_folder(Path(folder)) as new:
            write_layout(self.model, self.structure, new, kind=self.published.layout.type)
            self._write_rest(old, new)
        return Path(folder)

    def _write_rest(self, old: Path, new: Path) -> None:
        rest = {key: value for key, value in self.published.config.items() if key not in OF_THE_FILE}
        answers = [f for f in self.info.fields.values() if f.kind in ("label", "labels", "number", "tags") and f.labels != PLACES]
        named = _labels(answers[0].labels or self.published.config.labels()) if answers else {}
        write_json(new / "config.json", {**rest, **read_json(new / "config.json"), **named})
        copy_beside(old, new)


OF_THE_FILE = ("dtype", "torch_dtype", "transformers_version", "_name_or_path")
"""What a config.json says of the file beside it, and not of the model."""
BESIDE = ("*.json", "*.txt", "*.model", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
"""What stands beside a published model's weights: its tokenizer, how it generates, the modules of sentence-transformers."""


def copy_beside(old: Path, new: Path) -> None:
    """Copy all that stands beside a published model's config and weights."""
    for file in (file for glob in BESIDE for file in old.glob(glob)):
        place = file.relative_to(old)
        if str(place) != "config.json" and not place.name.endswith(".index.json"):
            (new / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, new / place)


def _labels(names: Sequence[str]) -> dict[str, Any]:
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def load(name: str | Path, *, task: str | None = None, side: int | None = None) -> Loaded:
    """A published model: ``weft.models.load("minilm")``.

    Args:
        name: A folder in the Hugging Face layout, a packaged model's name, or a hub's.
        task: What it shall be for; None = what it was published for. Only for another task may a head be new.
        side: Height and width of the images in pixels; None = the published ones. The positions are interpolated to others.
    """
    published = Published(name)
    structure = published.structure(task)
    info = published.info(structure, task)
    if side is not None:
        if published.layout.stretched is None:
            raise ValueError(f"{published.path} reads texts: side is for images; leave it out")
        structure = published.layout.stretched(structure, Interpolated)
        seen = {name: replace(f, length=side) if f.kind == "image" else f for name, f in info.fields.items()}
        info = replace(info, fields=seen)
    found = published.our_tensors(structure)
    model = published.build(structure, info, found)
    taken = published.give(model, structure, found, whole=True)
    if taken.new and task in (None, *published._tasks):
        missing = [their_name(n, published.layout.rules(structure)) for n in taken.new]
        raise ValueError(f"{published.path}: its weights do not fit its config.json: missing: {_some(missing)}")
    return Loaded(model.eval(), structure, info, published, taken)


def save(
    model: nn.Module, structure: Build[Structure], folder: str | Path, *, kind: str | None = None, config: Mapping[str, Any] = {}
) -> Path:
    """Write a structure in the Hugging Face layout, so that the package transformers reads it; ``Loaded.save`` writes all of one.

    Args:
        model: The structure.
        structure: The choices it was built of.
        folder: Where config.json and model.safetensors are written: one that is not there yet, or is empty.
        kind: The family (``bert``, ``gpt2``, ...); None = the first that is exactly this structure.
        config: More of config.json: special ids, names of classes.
    """
    check_free(Path(folder))
    with whole_folder(Path(folder)) as new:
        write_layout(model, structure, new, kind=kind, config=config)
    return Path(folder)


def write_layout(
    model: nn.Module, structure: Build[Structure], folder: Path, *, kind: str | None = None, config: Mapping[str, Any] = {}
) -> None:
    """``save``, into a folder that is there."""
    found, task = _family(structure, kind)
    tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    theirs = to_theirs(tensors, found.rules(structure))
    zero = [name for name, _ in found.zero if name in tensors and not tensors[name].any()]
    if unknown := [name for name in theirs.unknown if name not in zero]:
        raise ValueError(f"a {found.type} has no place for: {_some(unknown)}")
    classes = [len(tensors[name]) for name in ("classifier.out.weight", "tagger.out.weight") if name in tensors]
    if task == "choose" and classes:
        task = "classify"  # the same choices of a language model
    if task == "classify" and not classes:
        raise ValueError(f"this {found.type} chooses by a head without a bias, and theirs has one: build it for the task choose")
    title = next(title for title, of in found.tasks.items() if of == task)
    if task == "fill" and options(structure).get("relation") is not None:
        title = next((t for t in found.tasks if t.endswith("ForPreTraining")), title)
    bare = title.endswith("Model") and found.prefix and not title.endswith(("LMHeadModel", "DoubleHeadsModel"))
    out = {name.removeprefix(found.prefix) if bare else name: tensor for name, tensor in theirs.tensors.items()}
    labels = _labels([f"LABEL_{i}" for i in range(classes[0])]) if classes else {}
    sizes = {**found.sizes(tensors), **labels}
    content = {"model_type": found.type, "architectures": [title], **sizes, **found.write(structure), **config}
    write_json(folder / "config.json", content)
    save_file(out, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _family(structure: Build[Structure], kind: str | None) -> tuple[Layout, str]:
    """The family whose config.json says exactly this structure, and the task."""
    structure = _without_weights(structure)
    unsaid: dict[str, list[str]] = {}
    for found in [LAYOUTS[kind]] if kind else LAYOUTS.values():
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, AttributeError):  # it is built of other parts
            config = Config(found.write(structure), model_type=found.type)
            plain = structure if found.stretched is None else _as_published(structure, found.stretched)
            for task in dict.fromkeys(found.tasks.values()):
                if not (differing := _differing(found.read(config, task, _names_told(structure)), plain)):
                    return found, task
                if "type" not in differing and len(differing) < len(unsaid.get(found.type, differing * 2)):
                    unsaid[found.type] = differing
    fewest = min(map(len, unsaid.values()), default=0)
    near = [f"a {name}'s config.json cannot say this {', '.join(own)}" for name, own in unsaid.items() if len(own) == fewest]
    other = f"it is built of other parts than a {kind}" if kind else "it is built of other parts than all of them"
    raise ValueError(f"this structure is none of the published families: {'; '.join(near) or other}")


def _differing(one: Build[Structure], other: Build[Structure]) -> list[str]:
    """The options by which two structures differ; ``type`` if they are two kinds."""
    (kind, first), (same, second) = identity(one), identity(other)
    return ["type"] if kind != same else sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def _without_weights(structure: Build[Structure]) -> Build[Structure]:
    base, given = (structure.func, structure.keywords) if isinstance(structure, partial) else (structure, {})
    return partial(base, **{**given, "weights": None})


def _as_published(structure: Build[Structure], stretched: Any) -> Build[Structure]:
    """With plain positions where they were interpolated: what they began with is not told from what they are."""
    interpolated = name_of(at(structure, "embedder.parts.0.position")) == name_of(Interpolated)
    return stretched(structure, Learned) if interpolated else structure


def _names_told(structure: Build[Structure]) -> list[str]:
    """Names that tell a layout's ``read`` which heads there are."""
    chosen = options(structure)
    pooler = chosen.get("pooler")
    told = ["pooler.dense.weight"] if pooler is not None and options(pooler).get("transform") is not None else []
    told += ["cls.seq_relationship.weight", "sop_classifier.classifier.weight"] if chosen.get("relation") is not None else []
    return told + (["lm_head.weight"] if chosen.get("head") is not None and not _tied(chosen["head"]) else [])
