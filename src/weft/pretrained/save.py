"""A structure written in the layout of published models: its family, its config.json, its tensors, the files beside them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from weft.blocks import Interpolated, Learned
from weft.core.contracts import Structure
from weft.core.io import check_free, whole_folder, write_json
from weft.core.registry import Build, identity, name_of, options
from weft.models.zoo.family import LAYOUTS, Config, Layout, at, tied
from weft.models.zoo.tensor_names import some, to_theirs

OF_THE_FILE = ("dtype", "torch_dtype", "transformers_version", "_name_or_path")
"""What a config.json says of the file beside it, and not of the model."""
BESIDE = ("*.json", "*.txt", "*.model", "[0-9]_*/*.json", "[0-9]_*/*.safetensors")
"""What stands beside a published model's weights: its tokenizer, how it generates, the modules of sentence-transformers."""


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
        raise ValueError(f"a {found.type} has no place for: {some(unknown)}")
    classes = [len(tensors[name]) for name in ("classifier.out.weight", "tag_head.out.weight") if name in tensors]
    if task == "multiple-choice" and classes:
        task = "classification"  # the same choices of a language model
    if task == "classification" and not classes:
        raise ValueError(f"the multiple-choice head of this {found.type} has no bias; build the model with task: multiple-choice")
    title = next(title for title, of in found.tasks.items() if of == task)
    if task == "masked-lm" and options(structure).get("segment_head") is not None:
        title = next((t for t in found.tasks if t.endswith("ForPreTraining")), title)
    bare = title.endswith("Model") and found.prefix and not title.endswith(("LMHeadModel", "DoubleHeadsModel"))
    out = {name.removeprefix(found.prefix) if bare else name: tensor for name, tensor in theirs.tensors.items()}
    named = labels([f"LABEL_{i}" for i in range(classes[0])]) if classes else {}
    sizes = {**found.sizes(tensors), **named}
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
    told += ["cls.seq_relationship.weight", "sop_classifier.classifier.weight"] if chosen.get("segment_head") is not None else []
    return told + (["lm_head.weight"] if chosen.get("head") is not None and not tied(chosen["head"]) else [])


def labels(names: Sequence[str]) -> dict[str, Any]:
    """What a config.json says of the classes' names."""
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def copy_beside(old: Path, new: Path) -> None:
    """Copy all that stands beside a published model's config and weights."""
    for file in (file for glob in BESIDE for file in old.glob(glob)):
        place = file.relative_to(old)
        if str(place) != "config.json" and not place.name.endswith(".index.json"):
            (new / place).parent.mkdir(exist_ok=True)
            shutil.copyfile(file, new / place)
