"""Initialize structures from published weights or from those of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from weft.core.contracts import Pooler, Structure
from weft.core.options import Model
from weft.core.registry import Build, composition, is_composition, name_of, option_values
from weft.models.image_classifier import ImageClassifier
from weft.models.zoo.family import Task
from weft.pretrained.folder import PublishedModel, is_published
from weft.pretrained.load_weights import LoadReport, load_tensors


@composition("pretrained")
def pretrained(*, from_: Model, task: Task | None = None, pooler: Build[Pooler] | None = None) -> Build[Structure]:
    """A published model with its weights.

    The architecture follows its config.json. Heads that the task needs and the file lacks are newly initialized.

    Args:
        from_: A folder in the Hugging Face layout, a GGUF file, a packaged model (minilm, smollm2), or a name on the hub
            (owner/model@revision).
        task: The task, and so the head: encode, masked-lm, next-sentence, replaced-token, classification, token-classification,
            multiple-choice, question-answering, generation; None = the task it was published for.
        pooler: Pools the hidden states into one vector; None = as published.

    Example:
        >>> pretrained(from_="minilm", task="classification").keywords["dim"]  # doctest: +SKIP
        384
    """
    published = PublishedModel(from_)
    structure = published.structure(task)
    if pooler is not None:
        if "pooler" not in option_values(structure):
            raise ValueError(f"a {name_of(structure)} has no pooler; remove the option pooler")
        structure = partial(structure, pooler=pooler)
    return partial(structure, weights=str(published.path.resolve()))


def initialize_weights(model: Structure, structure: Build[Structure]) -> dict[str, LoadReport]:
    """Load the weights that a structure and its inner structures name in their option ``weights``: a report per folder."""
    return {
        str(part.weights): _initialize(part, build, Path(str(part.weights)))
        for part, build in structures_with_weights(model, structure)
    }


def structures_with_weights(model: Structure, structure: Build[Structure]) -> Iterator[tuple[Structure, Build[Structure]]]:
    """The structures that name weights, each with its factory; inner structures come first."""
    for name, parts in model.substructures().items():
        for part in [parts] if isinstance(parts, Structure) else parts:
            yield from structures_with_weights(part, option_values(_resolved(structure))[name])
    if model.weights is not None:
        yield model, structure


def _resolved(structure: Build[Structure]) -> Build[Structure]:
    return structure() if is_composition(structure) else structure


def _initialize(model: nn.Module, structure: Build[Structure], folder: Path) -> LoadReport:
    if not is_published(folder) and (folder / "model.safetensors").is_file():  # the folder of a run
        from weft.learning import read_weights

        return load_tensors(model, _of_same_classes(model, read_weights(folder / "model.safetensors")), folder)
    published = PublishedModel(folder)
    structure = _resolved(structure)
    found = published.our_tensors(structure)
    return published.load_into(model, structure, replace(found, tensors=_of_same_classes(model, found.tensors)))


def _of_same_classes(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the head of an image classifier of other classes: the network serves any, as those of ImageNet do."""
    if not isinstance(model, ImageClassifier):
        return tensors
    own, head = model.state_dict(), [name for name in tensors if name.startswith("classifier.")]
    fits = all(name in own and own[name].shape == tensors[name].shape for name in head)
    return tensors if fits else {name: tensor for name, tensor in tensors.items() if name not in head}
