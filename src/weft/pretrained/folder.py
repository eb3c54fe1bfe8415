"""Published models in any layout: their config.json, their tensors, and the structure that they describe."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from weft.core.contracts import Structure
from weft.core.example import CHOICE_LABELS
from weft.core.fields import Field, ImageField, Info, LabelField, SpanField, TagsField
from weft.core.gguf import find_gguf
from weft.core.hub import find_model
from weft.core.registry import Build, name_of, option_values
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.family import FAMILIES, Family, config_of, is_tied, model_type_of
from weft.models.zoo.tensor_names import Translated, their_name, to_ours
from weft.pretrained.empty_init import SkipInit
from weft.pretrained.gguf import GGUFModel
from weft.pretrained.huggingface import HuggingFaceFolder, read_safetensor
from weft.pretrained.layout import ModelLayout
from weft.pretrained.load_weights import VOCABULARY_TENSORS, LoadReport, has_more_rows, is_required, load_tensors
from weft.pretrained.sentence_layout import PooledHead, read_head
from weft.pretrained.sums import check_sums
from weft.recipe.tree import nearest

_POOLED_HEAD = {"classifier.out.weight": "linear.weight", "classifier.out.bias": "linear.bias"}


def is_published(path: str | Path) -> bool:
    """Whether a path is that of a published model: a folder with config.json, or a GGUF file."""
    return (Path(path) / "config.json").is_file() or find_gguf(path) is not None


class PublishedModel:
    """A published model: its config.json, tensors and architecture. Weights are read only when they are needed.

    Args:
        name: A folder in the Hugging Face layout, a GGUF file, a packaged model's name, or a name on the hub.
    """

    def __init__(self, name: str | Path):
        path = find_model(name)
        gguf = find_gguf(path)
        if gguf is None and not path.is_dir():
            raise ValueError(
                f"{path} is a file; name the folder of a published model (config.json and model.safetensors) or a .gguf file"
            )
        self.layout: ModelLayout = HuggingFaceFolder(path) if gguf is None else GGUFModel(gguf)
        self.path, config = self.layout.path, self.layout.config
        model_type = model_type_of(config)
        if model_type not in FAMILIES:
            networks = [name for family in FAMILIES.values() for name in family.networks]
            key, known = ("architecture", networks) if "architecture" in config else ("model_type", FAMILIES)
            where, near = self.path / "config.json", nearest(model_type, known)
            raise ValueError(f"{where}: unknown {key} {model_type!r:.100}{near} (supported: {', '.join(known)})")
        self.family: Family = FAMILIES[model_type]
        self.config: ModelConfig = config_of(config)
        with self._error_context():
            self.config.check()

    @contextlib.contextmanager
    def _error_context(self) -> Iterator[None]:
        """Prefix the errors raised inside with the folder."""
        try:
            yield
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None

    # ---------------------------------------------------------------------------------------------------------- files

    @cached_property
    def tensor_names(self) -> list[str]:
        """The names of the weights in the file, without buffers."""
        return [name for name in sorted(self.layout.names) if not _matches(name, self.family.ignored)]

    @cached_property
    def full_names(self) -> dict[str, str]:
        """Tensor names with the prefix that models with a head have -> names in the file."""
        prefix, body = self.family.prefix, self.family.body
        full: dict[str, str] = {}
        for name in self.tensor_names:  # of a legacy name and the current one, transformers loads the first
            full.setdefault(_current_name(prefix + name if self.bare and name.split(".")[0] in body else name), name)
        return full

    @cached_property
    def bare(self) -> bool:
        """Whether the names lack the prefix that models with a head have."""
        return not any(name.startswith(self.family.prefix) for name in self.layout.names)

    def read(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Some weights in float32 by their names in the file; ``names`` may also be full names. A masked-LM bias comes with its
        other name."""
        both = [*names, *(_decoder_bias(name) for name in names if _decoder_bias(name) in self.layout.names)]
        return self.layout.read(list(dict.fromkeys(self.full_names.get(name, name) for name in both)))

    def tensors(self) -> dict[str, Tensor]:
        """All weights in float32 by their full names."""
        found = self.layout.read(list(self.full_names.values()))
        return {full: found[name] for full, name in self.full_names.items()}

    # ------------------------------------------------------------------------------------------------------ structure

    @property
    def task(self) -> str:
        """The task it was published for."""
        names, known = self.config.get("architectures"), self.family.tasks
        if names and not self.tasks:
            raise ValueError(
                f"{self.path}: config.json: architectures is {names}; supported are {', '.join(known)}. "
                f"Set task to load the model for one of: {', '.join(dict.fromkeys(known.values()))}"
            )
        return self.tasks[0] if names else next(iter(known.values()))

    @property
    def tasks(self) -> list[str]:
        """The tasks of the ``architectures`` in config.json that are supported."""
        known = self.family.tasks
        found = [known[name] for name in self.config.get("architectures") or [] if name in known]
        return found if self.pooled_head is None else ["classification", *found]

    @cached_property
    def pooled_head(self) -> PooledHead | None:
        """Its linear classifier over a pooled vector, where it has the modules of sentence-transformers; else None."""
        return read_head(self.path)

    def structure(self, task: str | None = None) -> Build[Structure]:
        """The factory of the structure for a task, by default the one it was published for."""
        task = task or self.task
        with self._error_context():
            found = self.family.from_config(self.config, task, self.full_names)
        return self.pooled_head.structure(found) if self.pooled_head is not None and task == "classification" else found

    def info(self, structure: Build[Structure], task: str | None = None) -> Info:
        """The fields of the structure for this task, as far as config.json determines them."""
        task = task or self.task
        with self._error_context():
            return self._info(name_of(structure), task)

    def _info(self, name: str, task: str) -> Info:
        field = self.family.field(self.config)
        if isinstance(field, ImageField):
            label = {"label": self.config.label_field()} if task == "classification" else {}
            return Info({field.name: field, **label}, field.name)
        if name == "seq2seq":
            return Info({"source": replace(field, name="source"), "target": replace(field, name="target")}, "target")
        if name == "span-extractor":
            texts = {name: replace(field, name=name) for name in ("question", "context")}
            return Info({**texts, "answer": SpanField("answer", of="context")}, "context")
        if task == "multiple-choice":
            choices = {"question": replace(field, name="question"), "choices": field.several("choices")}
            label = LabelField("label", len(CHOICE_LABELS), labels=CHOICE_LABELS)
            return Info({**choices, "label": label}, "question")
        fields: dict[str, Field] = {field.name: field}
        if task == "classification":
            fields["label"] = self.config.label_field()
        if task == "token-classification":
            labels = self.config.labels()
            fields["tags"] = TagsField("tags", len(labels), labels=labels)
        return Info(fields, field.name)

    def our_tensors(self, structure: Build[Structure]) -> Translated:
        """Its tensors under the names of our structure, and the names that no rule matches."""
        check_sums(self.path)
        tensors, duplicates = self._merge_biases(self.tensors())
        found = to_ours(self._without_copies(tensors, structure), self.family.rules(structure))
        found = replace(found, unknown=[*found.unknown, *duplicates])
        if self.pooled_head is not None and name_of(structure) == "classifier":
            found.tensors.update(
                {name: read_safetensor(theirs, self.pooled_head.weights) for name, theirs in _POOLED_HEAD.items()}
            )
        embeddings, size = found.tensors.get("embedder.parts.0.weight"), self.config.get("vocab_size")
        if embeddings is not None and size is not None and len(embeddings) != size:
            raise ValueError(
                f"{self.path}: config.json: vocab_size is {size}, but the file has {len(embeddings)} token embeddings"
            )
        return found

    def load_into(self, model: nn.Module, structure: Build[Structure], found: Translated, *, strict: bool = False) -> LoadReport:
        """Load its weights, translated for a structure, into a model built from that structure; see ``load_tensors``."""
        ours = model.state_dict()
        zero = [name for name in self._zero(found) if name in ours]
        source = {name: torch.zeros(ours[name].shape, dtype=ours[name].dtype) for name in zero} | found.tensors
        shared = [name for name in VOCABULARY_TENSORS if name in source and name in ours]
        padded = not strict and any(has_more_rows(source[name], ours[name]) for name in shared)
        report = load_tensors(
            model,
            source,
            self.path,
            self.family.rules(structure),
            unknown=found.unknown,
            strict=strict,
            tokenizer_size=self.tokenizer_size if padded else None,
        )
        return replace(report, unused=[*report.unused, *sorted({*self.tensor_names} - {*self.full_names.values()})])

    @cached_property
    def tokenizer_size(self) -> int | None:
        """Number of token ids of its tokenizer; None where the folder has none."""
        try:
            return PretrainedTokenizer(from_=str(self.path)).vocab
        except ValueError:
            return None

    def build(self, structure: Build[Structure], info: Info, found: Translated) -> Structure:
        """Build the structure; on the meta device if the file has all of its tensors, which ``load_into`` assigns. So nothing
        is initialized at random or held in memory twice; nor is anything allocated where ``load_into`` will refuse the file."""
        with torch.device("meta"), SkipInit():
            model = structure(info)
        ours = {name for name, _ in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())}
        missing = ours - {*found.tensors, *self._zero(found)}
        return structure(info) if missing and not any(map(is_required, missing)) else model

    def _zero(self, found: Translated) -> list[str]:
        """Our tensors that are zero because the file has only their companions."""
        return [ours for ours, companion in self.family.zero if companion in found.tensors]

    def _merge_biases(self, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
        """Merge the two names of the masked-LM bias. Where the head is untied or the tensors differ, transformers uses
        ``decoder.bias``; the names of the others are returned."""
        aliases = {
            name: name.removesuffix("decoder.bias") + "bias"
            for name in tensors
            if name.endswith(".decoder.bias") and _matches(name, self.family.tied)
        }
        tied = self.config.get("tie_word_embeddings", True)
        others = [bias for name, bias in aliases.items() if bias in tensors]
        different = [bias for bias in others if not tied or not torch.equal(tensors[bias], tensors[_decoder_bias(bias)])]
        kept = {name: tensor for name, tensor in tensors.items() if name not in aliases}
        return kept | {bias: tensors[name] for name, bias in aliases.items()}, different

    def _without_copies(self, tensors: dict[str, Tensor], structure: Build[Structure]) -> dict[str, Tensor]:
        """The tensors with the token embeddings once, under their main name. Files have them under any tied name, older files
        under several, which must be equal."""
        main = their_name("embedder.parts.0.weight", self.family.rules(structure))
        tied = is_tied(option_values(structure).get("head")) or (
            main not in tensors and self.config.get("tie_word_embeddings", True)
        )
        patterns = [*self.family.copies, *(self.family.tied if tied else ())]
        copies = [name for name in tensors if _matches(name, patterns)]
        if not copies:
            return tensors
        embeddings = tensors.get(main, tensors[copies[0]])
        for name in copies:
            if not torch.equal(tensors[name], embeddings):
                raise ValueError(
                    f"{self.path}: the head is tied to the token embeddings (tie_word_embeddings in config.json), "
                    f"but {name} differs from them"
                )
        return {main: embeddings} | {name: tensor for name, tensor in tensors.items() if name not in copies}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _decoder_bias(bias: str) -> str:
    return bias.removesuffix("bias") + "decoder.bias"


def _current_name(name: str) -> str:
    """The current name of a tensor: the first releases called the weight and bias of a layer norm gamma and beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
