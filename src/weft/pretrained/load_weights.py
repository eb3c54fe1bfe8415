"""Load tensors into a structure by name, and report what was loaded, missing or unused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from weft.blocks import InterpolatedPositionEmbedder
from weft.models.zoo.tensor_names import Rule, shorten, their_name


@dataclass(frozen=True)
class LoadReport:
    """Result of loading weights.

    Args:
        loaded: Our tensors that were loaded.
        new: Our tensors that the source lacks: newly initialized.
        unused: Tensors of the source that were not used.
    """

    loaded: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self) -> str:
        text = f"{len(self.loaded)} of {len(self.loaded) + len(self.new)} tensors loaded"
        for title, names in (("newly initialized", self.new), ("not used", self.unused)):
            if names:
                text += f"; {title}: {shorten(names)}"
        return text


BODY = ("embedder.", "target_embedder.", "encoder.", "decoder.")
"""Modules that must be loaded completely; heads and poolers may be new."""
VOCABULARY_TENSORS = ("embedder.parts.0.weight", "head.bias", "head.out.weight", "head.out.bias")
"""Tensors with a row per token id. Published ones may be padded beyond the ids of their tokenizer; the padding can be dropped."""
_MAX_PROBLEMS = 8


def load_tensors(
    model: nn.Module,
    source: Mapping[str, Tensor],
    where: str | Path,
    rules: Sequence[Rule] = (),
    *,
    unknown: Sequence[str] = (),
    strict: bool = False,
    tokenizer_size: int | None = None,
) -> LoadReport:
    """Copy tensors of the same name into a structure. Raises ValueError that lists missing and mismatched tensors.

    Args:
        model: The structure.
        source: Tensors by our names.
        where: Where they come from, for messages.
        rules: Rules between our names and theirs, for messages.
        unknown: Their names that no rule matches.
        strict: Whether all of the source's body must be used: every layer and every token id.
        tokenizer_size: Number of ids of the source's tokenizer: rows beyond it may be dropped.
    """
    ours = _own_tensors(model)
    source = _fit_vocabulary(_fit_positions(source, model), ours, tokenizer_size)
    loaded, new = [n for n in ours if n in source], [n for n in ours if n not in source]
    unused = [n for n in source if n not in ours]
    problems = _mismatched(loaded, source, ours, rules)
    missing = _missing(new, ours, rules)
    problems += missing
    if strict and not missing:
        problems += _left_over(unused, unknown, source, ours, rules)
    if problems:
        more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
        raise ValueError(f"{where}: the weights do not fit this structure: {'; '.join(problems[:_MAX_PROBLEMS])}{more}")
    for name in loaded:
        _assign(model, name, ours[name], source[name])
    return LoadReport(loaded, new, [*dict.fromkeys(their_name(n, rules) for n in unused), *unknown])


def has_more_rows(theirs: Tensor, ours: Tensor) -> bool:
    """Whether theirs has more rows and the same shape otherwise."""
    return theirs.ndim == ours.ndim and theirs.shape[1:] == ours.shape[1:] and len(theirs) > len(ours)


def _own_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters and persistent buffers, each once."""
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    persistent = set(model.state_dict())
    return {name: tensor for name, tensor in tensors.items() if name in persistent}


def _fit_positions(source: Mapping[str, Tensor], model: nn.Module) -> Mapping[str, Tensor]:
    """The source with position embeddings interpolated to the model's, where the model does so."""
    for path, module in model.named_modules():
        if isinstance(module, InterpolatedPositionEmbedder) and (name := f"{path}.weight") in source:
            source = {**source, name: module.fitted(source[name])}
    return source


def _fit_vocabulary(source: Mapping[str, Tensor], ours: Mapping[str, Tensor], size: int | None) -> Mapping[str, Tensor]:
    """The source without the rows beyond our vocabulary, where ours covers the ``size`` ids of its tokenizer."""
    if size is None:
        return source
    shared = [n for n in VOCABULARY_TENSORS if n in source and n in ours]
    padded = [n for n in shared if has_more_rows(source[n], ours[n]) and len(ours[n]) >= size]
    return {**source, **{n: source[n][: len(ours[n])] for n in padded}}


def _mismatched(
    names: Sequence[str], source: Mapping[str, Tensor], ours: Mapping[str, Tensor], rules: Sequence[Rule]
) -> list[str]:
    problems = [why for n in names if (why := _mismatch(_shown(n, rules), source[n], ours[n]))]
    shared = [(source[n], ours[n]) for n in VOCABULARY_TENSORS if n in names]
    if any(theirs.shape[1:] == own.shape[1:] and len(theirs) != len(own) for theirs, own in shared):
        problems.append("the number of token ids differs; tokenize the data with the tokenizer of the published model")
    return problems


def _mismatch(name: str, theirs: Tensor, ours: Tensor) -> str | None:
    """Why a tensor cannot be loaded; None where it can."""
    if theirs.shape != ours.shape:
        return f"{name} has shape {tuple(theirs.shape)}, expected {tuple(ours.shape)}"
    if theirs.is_floating_point() != ours.is_floating_point():
        found, expected = (str(tensor.dtype).removeprefix("torch.") for tensor in (theirs, ours))
        return f"{name} has dtype {found}, expected {expected}"
    # The sum needs no memory. It is finite only if all values are; the second test is for overflow of large finite values.
    finite = theirs.sum().isfinite() or theirs.isfinite().all()
    return None if finite else f"{name} has NaN or infinite values"


def _missing(new: Sequence[str], ours: Iterable[str], rules: Sequence[Rule]) -> list[str]:
    missing = [_shown(n, rules) for n in new if is_required(n)]
    if len(missing) == len([n for n in ours if is_required(n)]):
        return ["no tensor of the embedder, encoder or decoder has a matching name"]
    return [f"missing: {shorten(missing)}"] if missing else []


def is_required(name: str) -> bool:
    return name.startswith(BODY) and not name.startswith(
        "encoder.layer_mix."
    )  # no published model has a scalar mix of its layers


def _left_over(
    unused: Sequence[str],
    unknown: Sequence[str],
    source: Mapping[str, Tensor],
    ours: Mapping[str, Tensor],
    rules: Sequence[Rule],
) -> list[str]:
    """Problems where tensors of the source's body were not used."""
    names = [their_name(n, rules) for n in unused if n.startswith(BODY)] + _of_body(unknown, rules)
    if not names:
        return []
    found, expected = _layers(source), _layers(ours)
    layers = [f"config.json has {expected} layers, but the file has {found}"] if found != expected else []
    return [*layers, f"unexpected: {shorten(names)}"]


def _of_body(unknown: Sequence[str], rules: Sequence[Rule]) -> list[str]:
    """Names that start as those of the body's tensors do: ``bert.`` or ``encoder.``."""
    roots = {rule.theirs.split(".")[0] for rule in rules if rule.ours[0].startswith(BODY)}
    return [name for name in unknown if name.split(".")[0] in roots]


def _layers(names: Iterable[str]) -> int:
    return len({found[0] for name in names if (found := re.match(r"\w+\.stack\.layers\.\d+\.", name))})


def _shown(name: str, rules: Sequence[Rule]) -> str:
    theirs = their_name(name, rules)
    return name if theirs == name else f"{theirs} ({name})"


def _assign(model: nn.Module, name: str, ours: Tensor, theirs: Tensor) -> None:
    """Copy the values into our tensor, or replace it where it is on the meta device."""
    if not ours.is_meta:
        ours.detach().copy_(theirs)
        return
    owns_storage = theirs.untyped_storage().nbytes() == theirs.nbytes
    tensor = theirs.to(ours.dtype, copy=not owns_storage)  # a view would keep the full storage alive
    path, _, last = name.rpartition(".")
    new = nn.Parameter(tensor, ours.requires_grad) if isinstance(ours, nn.Parameter) else tensor
    setattr(model.get_submodule(path), last, new)
