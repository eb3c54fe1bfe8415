"""Describe a module for a figure: its role, its title and its most important sizes."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from weft.core.registry import CATALOG, name_of

CONTAINERS = ("structure", "encoder", "decoder", "layer", "residual", "objective")
"""Roles whose child modules are shown."""

_ROLES = {
    "Structure": "structure",
    "Objective": "objective",
    "Embedder": "embedding",
    "Encoder": "encoder",
    "Decoder": "decoder",
    "Layer": "layer",
    "Residual": "residual",
    "Attention": "attention",
    "Mixer": "attention",
    "FeedForward": "feed-forward",
    "Norm": "normalization",
    "BatchNormalization": "normalization",
    "Position": "position",
    "Pooler": "pooling",
    "Head": "head",
    "Activation": "hidden",
    "Score": "hidden",
}
_TITLES = {"mixer": "Self-attention", "context": "Cross-attention"}


def role_of(module: nn.Module) -> str:
    """Return the role of a module, from its slot in the catalog; ``recurrent``, ``projection`` or ``other`` outside of it."""
    slot = next((base.__name__ for base in type(module).__mro__ if base in CATALOG), None)
    if slot is not None:
        return _ROLES.get(slot, "other")
    if isinstance(module, nn.RNNBase):
        return "recurrent"
    if isinstance(module, nn.Embedding):
        return "embedding"
    if isinstance(module, nn.LayerNorm | nn.modules.batchnorm._BatchNorm):
        return "normalization"
    if isinstance(module, nn.MultiheadAttention):
        return "attention"
    return "projection" if is_linear(module) else "other"


def in_catalog(module: nn.Module) -> bool:
    return any(base in CATALOG for base in type(module).__mro__)


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear layer or a convolution."""
    weight = module._parameters.get("weight")
    return weight is not None and weight.ndim >= 2 and not list(module.children()) and not isinstance(module, nn.Embedding)


def kind_of(module: nn.Module) -> str:
    """Return the catalog name of a module's class, or the class name outside of the catalog."""
    try:
        return name_of(type(module))
    except ValueError:
        return type(module).__name__


def title_of(name: str, module: nn.Module, role: str) -> str:
    """Return a title for the module that is the attribute ``name`` of its parent."""
    if role == "attention" and name in _TITLES:
        return _TITLES[name]
    if role == "feed-forward":
        return "Feed-forward"
    if role == "layer":
        return "Layer"
    if role == "normalization" or not name or name.isdigit():
        return type(module).__name__ if role == "normalization" else spelled(kind_of(module))
    return spelled(name)


def spelled(name: str) -> str:
    """Return an attribute name as a title.

    >>> spelled("target_embedder")
    'Target embedder'
    """
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def detail_of(module: nn.Module, role: str) -> str:
    """Return the most important sizes: heads, dimensions, vocabulary size, activation."""
    if role == "normalization":
        return ""
    if recurrent := _recurrent(module):
        return recurrent
    if role in ("attention", "position") and (heads := _heads(module)):
        return heads
    if role == "attention" and isinstance(score := getattr(module, "score", None), nn.Module):
        return f"{kind_of(score)} score"
    if role in ("embedding", "position"):
        table = next((p for p in module.parameters(recurse=False) if p.ndim >= 2), None)
        return "" if table is None else " × ".join(map(str, table.shape))
    parts = [_dimensions(module)]
    parts += [kind_of(m) for m in module.modules() if m is not module and _slot_is(m, "Activation")][:1]
    parts += [type(m).__name__ for m in module.modules() if m is not module and role_of(m) == "normalization"][:1]
    if not parts[0] and role == "head" and isinstance(vocab := getattr(module, "vocab", None), int):
        parts[0] = f"{vocab} outputs"
    return " · ".join(part for part in parts if part)


def _slot_is(module: nn.Module, slot: str) -> bool:
    return any(base.__name__ == slot and base in CATALOG for base in type(module).__mro__)


def _heads(module: nn.Module) -> str:
    heads = getattr(module, "heads", getattr(module, "num_heads", None))
    if not isinstance(heads, int) or heads == 1:
        return ""
    query = getattr(module, "query", None)
    if query is not None and isinstance(getattr(query, "weight", None), nn.Parameter):
        return f"{heads} heads × {query.weight.shape[0] // heads}"
    return f"{heads} heads"


def _recurrent(module: nn.Module) -> str:
    """Return layers, hidden size and directions of a recurrent network, also of one with a module per layer and direction."""
    networks = [(name.rpartition(".")[0], m) for name, m in module.named_modules() if isinstance(m, nn.RNNBase)]
    if not networks:
        return ""
    groups = {group for group, _ in networks}
    layers = sum(m.num_layers for group, m in networks if group == networks[0][0])
    both = len(groups) > 1 or networks[0][1].bidirectional
    text = f"{layers} layer{'s' * (layers > 1)} · hidden {networks[0][1].hidden_size}"
    return f"{text} · bidirectional" if both else text


def _dimensions(module: nn.Module) -> str:
    """Return ``in → hidden → out`` of consecutive linear layers in a module."""
    found: list[int] = []
    for into, out in _maps(module):
        if not found:
            found = [into, out]
        elif found[-1] == into:
            found.append(out)
    return " → ".join(map(str, found))


def _maps(module: nn.Module) -> Iterator[tuple[int, int]]:
    for inner in module.modules():
        if is_linear(inner) and isinstance(weight := inner.weight, nn.Parameter) and weight.ndim == 2:
            yield weight.shape[1], weight.shape[0]
