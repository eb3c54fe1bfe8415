"""A published model's folder: its config, its tensors, and our structure for it."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from weft.core.contracts import Structure
from weft.core.example import CHOICE_LABELS
from weft.core.fields import Field, Info
from weft.core.hub import find_model
from weft.core.io import read_json
from weft.core.registry import Build, name_of, options
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.models.zoo.family import LAYOUTS, Config, Layout, tied
from weft.models.zoo.tensor_names import Translated, their_name, to_ours
from weft.pretrained.empty_init import Unfilled
from weft.pretrained.load_weights import BY_ID, Taken, longer, take
from weft.recipe.tree import nearest

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
        if names and not self.tasks:
            raise ValueError(
                f"{self.path}: config.json: architectures is {names}, but known are: {', '.join(known)}; "
                f"task says what else it shall be for: {', '.join(dict.fromkeys(known.values()))}"
            )
        return self.tasks[0] if names else next(iter(known.values()))

    @property
    def tasks(self) -> list[str]:
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
        if name == "span-extractor":
            texts = {name: replace(read, name=name) for name in ("question", "context")}
            return Info({**texts, "answer": Field("answer", 2, "span", max_length=1, space="context")}, "context")
        if task == "multiple-choice":
            choices = {"question": replace(read, name="question"), "choices": replace(read, name="choices", kind="texts")}
            right = Field("label", len(CHOICE_LABELS), "label", space="label", labels=CHOICE_LABELS)
            return Info({**choices, "label": right}, "question")
        fields = {read.name: read}
        if task == "classification":
            fields["label"] = self.config.label()
        if task == "token-classification":
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
        cut = not whole and any(longer(source[n], own[n]) for n in BY_ID if n in source and n in own)
        ids = self.ids if cut else None
        taken = take(model, source, self.path, self.layout.rules(structure), unknown=found.unknown, whole=whole, ids=ids)
        return replace(taken, unused=[*taken.unused, *sorted({*self.weights} - {*self.names.values()})])

    @cached_property
    def ids(self) -> int | None:
        """How many ids its tokenizer gives; None where it has none."""
        try:
            return PretrainedTokenizer(from_=str(self.path)).vocab
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
        shared = tied(options(structure).get("head")) or (own not in tensors and self.config.get("tie_word_embeddings", True))
        globs = [*self.layout.copies, *(self.layout.tied if shared else ())]
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
