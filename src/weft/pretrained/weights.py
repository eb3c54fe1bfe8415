"""A structure that begins with weights: the choice that names a published model's, and giving what was named."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torch import nn

from weft.core.contracts import Pooler, Structure
from weft.core.options import Model
from weft.core.registry import Build, composition, is_composition, name_of, options
from weft.models.zoo.family import Task
from weft.pretrained.folder import Published
from weft.pretrained.load_weights import Taken, take


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
        >>> pretrained(from_="minilm", task="classification").keywords["dim"]  # doctest: +SKIP
        384
    """
    published = Published(from_)
    structure = published.structure(task)
    if pooler is not None:
        if "pooler" not in options(structure):
            raise ValueError(f"a {name_of(structure)} has no pooler; leave it out")
        structure = partial(structure, pooler=pooler)
    return partial(structure, weights=str(published.path.resolve()))


def begin(model: Structure, structure: Build[Structure]) -> dict[str, Taken]:
    """Give a structure, and those that are parts of it, the weights that their choices ``weights`` name: what was taken, by
    the place it is from."""
    return {str(part.weights): _begin(part, build, Path(str(part.weights))) for part, build in with_weights(model, structure)}


def with_weights(model: Structure, structure: Build[Structure]) -> Iterator[tuple[Structure, Build[Structure]]]:
    """The structures that name weights, those that are parts of others first; each with what it was built of."""
    for name, parts in model.substructures().items():
        for part in [parts] if isinstance(parts, Structure) else parts:
            yield from with_weights(part, options(_blocks(structure))[name])
    if model.weights is not None:
        yield model, structure


def _blocks(structure: Build[Structure]) -> Build[Structure]:
    return structure() if is_composition(structure) else structure


def _begin(model: nn.Module, structure: Build[Structure], folder: Path) -> Taken:
    if not (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():  # a run's
        from weft.learning import read_weights

        return take(model, read_weights(folder / "model.safetensors"), folder)
    published = Published(folder)
    structure = _blocks(structure)
    return published.give(model, structure, published.our_tensors(structure))
