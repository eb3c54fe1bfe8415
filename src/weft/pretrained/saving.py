"""Save a structure in the Hugging Face layout: find its family, write config.json, the tensors and companion files."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

from weft.blocks import InterpolatedPositionEmbedder, LearnedPositionEmbedder, PatchEmbedder
from weft.core.contracts import Structure
from weft.core.files import check_free, complete_folder
from weft.core.io import write_json
from weft.core.registry import Build, identity, name_of, option_values
from weft.models.zoo.family import FAMILIES, Family, config_of, is_tied, model_type_of
from weft.models.zoo.option_paths import option_at
from weft.models.zoo.tensor_names import shorten, to_theirs
from weft.pretrained.sentence_layout import body_of, pooling_of, write_modules
from weft.pretrained.sums import write_sums

_HEAD = "classifier.out."
FILE_KEYS = ("dtype", "torch_dtype", "transformers_version", "_name_or_path")
"""Keys of config.json that describe the file, not the model."""


def save(
    model: nn.Module,
    structure: Build[Structure],
    folder: str | Path,
    *,
    model_type: str | None = None,
    config: Mapping[str, Any] = {},
) -> Path:
    """Save a structure in the Hugging Face layout, for the package transformers; ``PretrainedModel.save`` also keeps other files.

    Args:
        model: The model.
        structure: The factory it was built by.
        folder: A new or empty folder for config.json and model.safetensors.
        model_type: The model family (``bert``, ``gpt2``, ...); None = the first one that has exactly this structure.
        config: More keys of config.json: special ids, class names.
    """
    check_free(Path(folder))
    with complete_folder(Path(folder)) as new:
        write_folder(model, structure, new, model_type=model_type, config=config)
        write_sums(new)
    return Path(folder)


@dataclass(frozen=True)
class Origin:
    """The published model that a model came from, for saving it as it was.

    Args:
        config: Its config.json.
        bare: Whether its tensor names lack the prefix that models with a head have; None = as its class has them.
        unused: Its tensors that the structure does not use, by their names in the file.
    """

    config: Mapping[str, Any]
    bare: bool | None = None
    unused: Mapping[str, Tensor] = field(default_factory=dict)


def write_folder(
    model: nn.Module,
    structure: Build[Structure],
    folder: Path,
    *,
    model_type: str | None = None,
    config: Mapping[str, Any] = {},
    origin: Origin | None = None,
) -> None:
    """Write config.json and model.safetensors into an existing folder; see ``save``. Where the config.json of ``origin``
    describes the structure, it is kept, and so are the class of transformers and the unused tensors."""
    try:
        family, task = _family_of(structure, model_type)
    except ValueError:
        if (mode := pooling_of(structure)) is None:
            raise
        body, encoder = body_of(model, structure)
        write_folder(body, encoder, folder, model_type=model_type, config=config, origin=origin)
        head = {name.removeprefix(_HEAD): t for name, t in model.state_dict().items() if name.startswith(_HEAD)}
        file = write_modules(folder, mode, option_at(structure, "dim"), head)
        linear = {f"linear.{name}": tensor.detach().cpu().contiguous() for name, tensor in head.items()}
        save_file(linear, str(file), metadata={"format": "pt"})
        return
    _refuse_oblong_images(model)
    tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    zero = [name for name, _ in family.zero if name in tensors and not tensors[name].any()]
    classes = [len(tensors[name]) for name in ("classifier.out.weight", "tag_head.out.weight") if name in tensors]
    kept = _kept_class(origin, structure, family, lossless=not {name for name, _ in family.zero} & tensors.keys() - {*zero})
    architecture = kept or _architecture(structure, family, task, classes)
    bare = _is_bare(architecture, family) if kept is None or origin is None or origin.bare is None else origin.bare
    written = {name: tensor for name, tensor in tensors.items() if not (kept and bare and name in zero)}
    theirs = to_theirs(written, family.rules(structure))
    if unknown := [name for name in theirs.unknown if name not in zero]:
        raise ValueError(f"a published {family.model_type} has no tensors for: {shorten(unknown)}")
    named: dict[str, Tensor] = {n.removeprefix(family.prefix) if bare else n: tensor for n, tensor in theirs.tensors.items()}
    before = {} if origin is None else {key: value for key, value in origin.config.items() if key not in FILE_KEYS}
    if kept is not None and origin is not None:
        known = config_of(origin.config, family.model_type)
        sizes = {key: size for key, size in family.data_config(model).items() if known[key] != size}
        content, named = {**before, **sizes}, {**origin.unused, **named}
        if family.networks:
            del content["model_type"]  # the architecture implies it
    else:
        labels = label_config([f"LABEL_{i}" for i in range(classes[0])]) if classes else {}
        content = {"model_type": family.model_type, "architectures": [architecture], **family.data_config(model), **labels}
        content = {**before, **content, **family.to_config(structure), **config}
        content = _as_network(content) if family.networks else content
    write_json(folder / "config.json", content)
    save_file(named, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _kept_class(origin: Origin | None, structure: Build[Structure], family: Family, *, lossless: bool) -> str | None:
    """The class of transformers that config.json of the origin has, or implies, if it describes exactly this structure.

    Args:
        origin: The published model.
        structure: The structure.
        family: Its family.
        lossless: Whether tensors that classes without a head lack are zero.
    """
    if origin is None or model_type_of(origin.config) != family.model_type:
        return None
    config = config_of(origin.config)
    names = [name for name in config.get("architectures") or [next(iter(family.tasks))] if name in family.tasks]
    plain = _plain(structure, family)
    for name in names:
        if _is_bare(name, family) and not lossless:
            continue
        with contextlib.suppress(ValueError):
            if not _differing(family.from_config(config, family.tasks[name], _tensor_names_of_heads(structure)), plain):
                return name
    return None


def _is_bare(architecture: str, family: Family) -> bool:
    """Whether a class of transformers has no head, so that its tensor names lack the prefix."""
    return (
        bool(family.prefix) and architecture.endswith("Model") and not architecture.endswith(("LMHeadModel", "DoubleHeadsModel"))
    )


def _architecture(structure: Build[Structure], family: Family, task: str, classes: Sequence[int]) -> str:
    """The class of transformers for a structure."""
    if task == "multiple-choice" and classes:
        task = "classification"  # a language model has the same options for both
    if task == "classification" and not classes:
        raise ValueError(
            f"the multiple-choice head of this {family.model_type} has no bias; build the model with task: multiple-choice"
        )
    names = [name for name, of in family.tasks.items() if of == task]
    if task == "masked-lm" and option_values(structure).get("segment_head") is not None:
        return next((name for name in family.tasks if name.endswith("ForPreTraining")), names[0])
    return names[0]


def _family_of(structure: Build[Structure], model_type: str | None) -> tuple[Family, str]:
    """The family whose config.json describes exactly this structure, and the task."""
    differences: dict[str, list[str]] = {}
    for family in [FAMILIES[model_type]] if model_type else FAMILIES.values():
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError, AttributeError):  # it has other blocks
            config = config_of(family.to_config(structure), family.model_type)
            plain = _plain(structure, family)
            for task in dict.fromkeys(family.tasks.values()):
                described = family.from_config(config, task, _tensor_names_of_heads(structure))
                if not (differing := _differing(described, plain)):
                    return family, task
                closest = differences.get(family.model_type, differing * 2)
                if "type" not in differing and len(differing) < len(closest):
                    differences[family.model_type] = differing
    fewest = min(map(len, differences.values()), default=0)
    near = [
        f"config.json of a {name} cannot express its {', '.join(different)}"
        for name, different in differences.items()
        if len(different) == fewest
    ]
    other = f"its blocks are not those of a {model_type}" if model_type else "its blocks are those of no family"
    raise ValueError(f"this structure is none of the published families: {'; '.join(near) or other}")


def _differing(one: Build[Structure], other: Build[Structure]) -> list[str]:
    """The options in which two structures differ; ``type`` if the structures are of different types."""
    (type_, first), (other_type, second) = identity(one), identity(other)
    if type_ != other_type:
        return ["type"]
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def _without_weights(structure: Build[Structure]) -> Build[Structure]:
    base, given = (structure.func, structure.keywords) if isinstance(structure, partial) else (structure, {})
    return partial(base, **{**given, "weights": None})


def _plain(structure: Build[Structure], family: Family) -> Build[Structure]:
    """The structure as config.json describes it: without weights, and with learned positions instead of interpolated ones."""
    structure = _without_weights(structure)
    if family.with_positions is None:
        return structure
    interpolated = name_of(option_at(structure, "embedder.parts.0.position")) == name_of(InterpolatedPositionEmbedder)
    return family.with_positions(structure, LearnedPositionEmbedder) if interpolated else structure


def _tensor_names_of_heads(structure: Build[Structure]) -> list[str]:
    """Tensor names by which ``Family.from_config`` recognizes the heads of a structure."""
    own = option_values(structure)
    pooler = own.get("pooler")
    names = ["pooler.dense.weight"] if pooler is not None and option_values(pooler).get("transform") is not None else []
    names += ["cls.seq_relationship.weight", "sop_classifier.classifier.weight"] if own.get("segment_head") is not None else []
    return names + (["lm_head.weight"] if own.get("head") is not None and not is_tied(own["head"]) else [])


def label_config(names: Sequence[str]) -> dict[str, Any]:
    """``id2label`` and ``label2id`` of config.json."""
    return {"id2label": {str(i): n for i, n in enumerate(names)}, "label2id": {n: i for i, n in enumerate(names)}}


def _as_network(config: Mapping[str, Any]) -> dict[str, Any]:
    """config.json of an image network: ``architecture`` names it, ``label_names`` the classes."""
    kept = {key: value for key, value in config.items() if key not in ("model_type", "architectures", "id2label", "label2id")}
    names = list(config["id2label"].values())
    named = {} if names == [f"LABEL_{i}" for i in range(len(names))] else {"label_names": names}
    return {"architecture": kept["architecture"], "num_classes": len(names), **kept, **named}


def _refuse_oblong_images(model: nn.Module) -> None:
    """Raise ValueError for a model of images that are no squares: config.json has one image size."""
    for patch in model.modules():
        if isinstance(patch, PatchEmbedder) and patch.shape[1] != patch.shape[2]:
            raise ValueError(
                f"the model reads images of {patch.shape[1]} x {patch.shape[2]} pixels, but published models have square ones; "
                "train on squares to publish it"
            )
