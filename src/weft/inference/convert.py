"""Convert between run folders and published models in the Hugging Face layout."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import processors
from torch import nn

from weft.core.contracts import Codec, Encodes, ModelsLanguage
from weft.core.example import CHOICE_LABELS
from weft.core.fields import ClassField, Field, Frame, Info, LabelsField, NumberField, TokenizedField
from weft.core.files import check_free, complete_folder, copy_file
from weft.core.io import read_json, write_json, write_text
from weft.core.printable import printable_line
from weft.core.registry import is_composition, name_of, option_values
from weft.data import save_codec
from weft.data.several import merge
from weft.data.tokenizers.vocabulary import VocabularyTokenizer
from weft.generate.frontier import positions
from weft.inference.embedding import LENGTH, SENTENCES, max_length_of, open_embedder
from weft.inference.load import load
from weft.inference.origin import PublishedFiles, read_origin, write_origin
from weft.inference.published import open_published
from weft.inference.trained_run import TrainedRun
from weft.learning import write_weights
from weft.learning.network import Network
from weft.models.zoo.family import FAMILIES, model_type_of
from weft.models.zoo.option_paths import option_at, with_options
from weft.pretrained import PublishedModel
from weft.pretrained.saving import Origin, write_folder
from weft.pretrained.sentence_layout import (
    LOGITS,
    MODULES,
    POOLING,
    read_head,
    write_module_list,
    write_pooling,
)
from weft.pretrained.sums import write_sums
from weft.recipe import nearest
from weft.training.build import plans
from weft.training.resume import codec_hashes
from weft.training.run_folder import RunFolder

_ENCODERS = ("text-encoder", "classifier", "tagger", "multiple-choice", "span-extractor")
"""Structures of RoBERTa models."""


_USAGE = f"""
Class probabilities are the softmax of the output `{LOGITS}` of the last module; config.json has the class names (`id2label`).
In weft:

    weft.load("FOLDER").predictions(["a text"])

In sentence-transformers:

    model = SentenceTransformer("FOLDER")
    embeddings = model.encode(["a text"])
    logits = [row["{LOGITS}"] for row in model.encode(["a text"], output_value=None)]
"""


def to_published(run_folder: str | Path, out: str | Path, kind: str | None = None) -> Path:
    """Write a trained run in the Hugging Face layout: config.json, model.safetensors and tokenizer.json; return the folder.

    Args:
        run_folder: The run folder.
        out: The folder to write; must be new or empty.
        kind: Model family (``bert``, ``gpt2``, ...); None = the family it was converted from, or the first that has exactly this
            structure.
    """
    out, source = Path(out), RunFolder(run_folder).path
    check_free(out)
    if kind is not None and kind not in FAMILIES:
        raise ValueError(f"unknown model family {kind!r}{nearest(kind, FAMILIES)}; known: {', '.join(FAMILIES)}")
    run = load(run_folder, "cpu")
    run.codec = _codec_of_structure(run)
    structure = plans(run.run)[-1].structure
    structure = structure() if is_composition(structure) else structure
    origin = read_origin(source)
    if origin.config and kind not in (None, model_type_of(origin.config)):
        origin = PublishedFiles()  # its config belongs to another family
    if not origin.config:
        structure = _shift_positions(run.model, structure, run.codec.info)
    with complete_folder(out) as new:
        kept = {name: origin.config[name] for name in ("id2label", "label2id") if name in origin.config}
        config = kept if origin.config else _ids(run.codec, structure)
        write_folder(
            run.model,
            structure,
            new,
            model_type=kind or (model_type_of(origin.config) if origin.config else None),
            config=config,
            origin=Origin(origin.config) if origin.config else None,
        )
        for name, content in origin.files.items():
            write_json(new / name, content)
        for space, tokenizer in run.codec.tokenizers.items():
            tokenizer.save(new / ("tokenizer.json" if len(run.codec.tokenizers) == 1 else f"tokenizer-{space}.json"))
        if not origin.config and len(run.codec.tokenizers) == 1:
            _write_frame(run, new / "tokenizer.json")
        about = f"Written by weft from the run {source.name}.\n"
        if read_head(new) is not None:  # a classifier over a pooled vector
            _copy_pooling(source, new)
            _write_length(open_embedder(source, "cpu").max_length, new)
            about += _USAGE
        elif (source / MODULES).is_file():
            _copy_pooling(source, new)
        elif not origin.config:
            _write_modules(source, structure, new)
        write_text(new / "README.md", about)
        write_sums(new)
    return out


def to_run(name: str | Path, out: str | Path) -> Path:
    """Write a published model as a run folder, which is used like that of a trained run and can be converted back.

    Args:
        name: Folder in the Hugging Face layout, GGUF file, name of a packaged model (``minilm``), or name on the hub.
        out: The folder to write; must be new or empty.
    """
    out = Path(out)
    check_free(out)
    published, run = PublishedModel(name), open_published(name, device="cpu")
    path = str(published.path.resolve())
    run.run.structure = functools.partial(run.run.structure, weights=path)
    with complete_folder(out) as new:
        folder = RunFolder(new)
        try:
            folder.create(run.run.dump(), [])
            recipe = folder.recipe.read_text(encoding="utf-8")
            write_text(
                folder.recipe, recipe.replace(printable_line(str(new)), printable_line(str(out)), 1)
            )  # its first line has the path
            folder.write_log({"event": "converted", "from": path})
            save_codec(run.codec, new)
            write_weights(folder.model, Network(run.model, run.objectives).tensors(), codec_hashes(folder, run.run))
        finally:
            folder.close()
        write_origin(new, published)
        _copy_pooling(published.path, new)
        if Encodes in run.model.provides() and "source" not in run.codec.info:
            length = max_length_of(published.path, positions(run.model) or run.codec.info.input_texts()[0].max_length)
            _write_pooling("mean", run.model.dim, length, new)  # the default of sentence-transformers
    return out


def _shift_positions(model: Any, structure: Any, info: Info) -> Any:
    """Shift the position embeddings of a RoBERTa, in the model and in the returned structure, to start at the padding id + 1.

    Transformers expects them there, and the padding id depends on the tokenizer.
    """
    has_tokens = name_of(structure) in _ENCODERS and info.tokenized() and name_of(option_at(structure, "embedder")) == "sum"
    parts = list(option_at(structure, "embedder.parts")) if has_tokens else []
    learned_part = parts[1] if len(parts) > 1 and name_of(parts[1]) == "learned" else None
    offset = info.tokenized()[0].special.pad + 1 if has_tokens else 0
    if learned_part is None or option_at(learned_part, "offset") in (0, offset):
        return structure
    learned = model.embedder.parts[1]
    padding = learned.weight.new_zeros(offset, learned.weight.shape[1])
    learned.weight = nn.Parameter(torch.cat([padding, learned.weight.detach()[learned.offset :]]))
    learned.offset = offset
    parts[1] = with_options(learned_part, offset=offset)
    return with_options(structure, embedder=with_options(option_at(structure, "embedder"), parts=parts))


def _copy_pooling(old: Path, new: Path) -> None:
    """Copy the files of sentence-transformers, where a folder has them. The head of a classifier is part of its run."""
    for name in (POOLING, LENGTH, SENTENCES, *([MODULES] if read_head(old) is None else [])):
        if (old / name).is_file() and not (new / name).is_file():
            copy_file(old / name, new / name)


def _write_pooling(mode: str, dim: int, length: int, new: Path) -> None:
    """Write pooling mode and maximum length where the folder has none, with the keys that all versions read."""
    if not (new / POOLING).is_file():
        write_pooling(new, mode, dim)
    _write_length(length, new)


def _write_length(length: int, new: Path) -> None:
    """Write the maximum length where the folder has none."""
    config = read_json(new / LENGTH) if (new / LENGTH).is_file() else {}
    if not config.get("max_seq_length"):  # current versions store it in tokenizer_config.json
        write_json(new / LENGTH, {**config, "max_seq_length": length})


def _write_modules(source: Path, structure: Any, new: Path) -> None:
    """Write the files of sentence-transformers for a text encoder: transformer, pooling, normalization."""
    pooler = option_values(structure).get("pooler") if name_of(structure) == "text-encoder" else None
    modes = {"first": "cls", "max": "max", "mean": "mean", "last": "lasttoken"}
    mode = "mean" if pooler is None else modes.get(name_of(pooler), "")
    if (
        name_of(structure) != "text-encoder"
        or not mode
        or (pooler is not None and option_values(pooler).get("transform") is not None)
    ):
        return
    _write_pooling(mode, option_at(structure, "dim"), open_embedder(source, "cpu").max_length, new)
    parts = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    write_module_list(new, parts)


def _write_frame(run: Any, file: Path) -> None:
    """Write the special tokens around a text into tokenizer.json and tokenizer_config.json."""
    (tokenizer,), field = run.codec.tokenizers.values(), run.codec.info.tokenized()[0]
    if not isinstance(tokenizer, VocabularyTokenizer):
        return
    names, special, frame = tokenizer.names, field.special, field.frame
    if frame == Frame():  # a published tokenizer has a template already
        causal = ModelsLanguage in run.model.provides()
        first, last = ((special.bos,), ()) if causal else (frame.first, frame.last)
        around = [" ".join(names[i] for i in ids) for ids in (first, frame.between, last)]
        inner: Any = tokenizers.Tokenizer.from_file(str(file))
        inner.post_processor = processors.TemplateProcessing(
            single=f"{around[0]} $A {around[2]}".strip(),
            pair=f"{around[0]} $A {around[1]} $B:0 {around[2]}".strip(),
            special_tokens=[(names[i], i) for i in sorted({*first, *frame.between, *last})],
        )
        inner.save(str(file))
    config: dict[str, Any] = {f"{key}_token": names[i] for key, i in vars(special).items() if 0 <= i < len(names)}
    if frame.segments and read_json(file.with_name("config.json")).get("type_vocab_size", 0) > 1:
        config["model_input_names"] = [
            "input_ids",
            "token_type_ids",
            "attention_mask",
        ]  # otherwise transformers omits segment ids
    write_json(file.with_name("tokenizer_config.json"), {"tokenizer_class": "PreTrainedTokenizerFast", **config})


def _special_ids(field: Field, structure: Any) -> dict[str, Any]:
    """Return the entries of config.json for special token ids; none for images."""
    if not isinstance(field, TokenizedField):
        return {}
    special = field.special
    found = {"bos_token_id": special.bos, "eos_token_id": special.eos, "pad_token_id": special.pad}
    if name_of(structure) == "seq2seq":
        found["decoder_start_token_id"], *forced = field.decoder_prefix()
        found |= {"forced_bos_token_id": forced[0]} if len(forced) == 1 else {}
    if name_of(structure) == "seq2seq-classifier":  # its decoder starts with EOS
        found["decoder_start_token_id"] = special.eos
    return found


def _codec_of_structure(run: TrainedRun) -> Codec:
    """Return the fields and tokenizers that the structure is built on: those of all named sources."""
    if len(run.codecs) < 2:
        return run.codec
    info = merge({name: codec.info for name, codec in run.codecs.items()})
    tokenizers = {space: tokenizer for codec in run.codecs.values() for space, tokenizer in codec.tokenizers.items()}
    return Codec(replace(info, target=run.codec.info.target), tokenizers)


def _ids(codec: Codec, structure: Any) -> dict[str, Any]:
    """Return the entries of config.json for special token ids and classes."""
    info = codec.info
    field = info[info.target] if info.target in info else info.texts()[0]
    found = {name: number for name, number in _special_ids(field, structure).items() if number >= 0}
    for name in ("label", "tags"):
        target = info.fields.get(name)
        labels = target.labels if isinstance(target, ClassField) else ()
        if isinstance(target, NumberField):
            labels, found["problem_type"] = ("LABEL_0",), "regression"
        if isinstance(target, LabelsField):
            found["problem_type"] = "multi_label_classification"
        if labels and labels != CHOICE_LABELS:  # choices are not classes of the model
            found |= {"id2label": {str(i): n for i, n in enumerate(labels)}, "label2id": {n: i for i, n in enumerate(labels)}}
    return found
