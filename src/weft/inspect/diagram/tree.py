"""From modules to the blocks of a figure: nested, with parameter counts, and with identical layers collapsed into one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from weft.inspect.diagram.describe import CONTAINERS, detail_of, in_catalog, is_linear, kind_of, role_of, spelled, title_of

_LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential, nn.ParameterList, nn.ParameterDict)
_LONGEST_PERIOD = 6
"""Layers that repeat with a longer period than this are not collapsed."""


@dataclass
class Edge:
    """Data flow from one block to another.

    Args:
        producer: The innermost block that the data comes from.
        consumer: The innermost block that uses it.
        shape: The shape of the data.
    """

    producer: Block
    consumer: Block
    shape: str


@dataclass(eq=False)
class Block:
    """A block of the figure: a module, or several identical ones.

    Args:
        path: Path of the module, as in ``named_modules``.
        title: Title in the figure.
        kind: Its name in the catalog, or its class.
        role: Role in the model; see ``describe.role_of``.
        detail: Its sizes.
        own: Parameters of a block without children. A parameter that is shared is counted where it occurs first.
        children: The blocks inside.
        repeat: How many identical copies it stands for, each with its own parameters.
        applied: How often the same parameters are applied in a row.
        tied: Paths of the blocks whose parameters it uses.
        shape: Shape of its output.
        ran: Whether the recorded forward pass used it.
        paths: Paths of all modules that it stands for, in the order of the copies.
        edges: Data flow between children: (producer, consumer) to its details.
        inputs: Inputs of the model that it consumes, at its level.
    """

    path: str
    title: str
    kind: str
    role: str
    detail: str = ""
    own: int = 0
    children: list[Block] = field(default_factory=list)
    repeat: int = 1
    applied: int = 1
    tied: tuple[str, ...] = ()
    shape: str = ""
    ran: bool = True
    paths: tuple[str, ...] = ()
    edges: dict[tuple[Block, Block], Edge] = field(default_factory=dict)
    inputs: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = self.paths or (self.path,)

    @property
    def parameters(self) -> int:
        """Parameters of one copy."""
        return self.own + sum(child.parameters * child.repeat for child in self.children)

    def walk(self) -> Iterator[Block]:
        """The block and all blocks inside, outer ones first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def copies(self, around: int = 1) -> dict[Block, int]:
        """How often the block and those inside occur, with the repetitions of the blocks around them."""
        found: dict[Block, int] = {self: around * self.repeat}
        for child in self.children:
            found |= child.copies(around * self.repeat)
        return found

    def signature(self) -> Any:
        """Equal for blocks that look the same."""
        inner = tuple(child.signature() for child in self.children)
        return self.title, self.kind, self.role, self.detail, self.own, self.repeat, self.applied, self.tied, self.shape, inner


def outline(roots: Mapping[str, nn.Module]) -> Block:
    """The blocks of models and objectives, as the modules are nested; nothing is collapsed yet.

    Args:
        roots: Modules by the prefix of their paths.
    """
    counted: dict[Tensor, Block] = {}
    top = Block("", "", "", "structure")
    for path, module in roots.items():
        blocks = _blocks(path, path.rpartition(".")[2], module, counted, top=True)
        if role_of(module) == "objective":
            blocks = [block for block in blocks if block.parameters or block.tied]
            for block in blocks:
                block.title = f"Objective: {block.title.lower()}"
        top.children += blocks
    if not top.children:  # of modules without state
        top.children = [Block(path, type(module).__name__, "", "other") for path, module in roots.items()]
    return top


def _blocks(path: str, name: str, module: nn.Module, counted: dict[Tensor, Block], *, top: bool = False) -> list[Block]:
    """The block of a module, or those of its children where the module itself is not shown."""
    role = role_of(module)
    if not _is_shown(module, role):
        return []
    if top or _is_transparent(module):
        own = _own_parameters(path, module, counted)
        return own + [b for inner, child in _children(module) for b in _blocks(f"{path}.{inner}", inner, child, counted)]
    block = Block(path, title_of(name, module, role), kind_of(module), role)
    if _is_leaf(module, role):
        return [_filled(block, module, counted)]
    children = [b for inner, child in _children(module) for b in _blocks(f"{path}.{inner}", inner, child, counted)]
    if not children:
        return [_filled(block, module, counted)]
    block.children = _own_parameters(path, module, counted) + children
    if role == "embedding" and len(block.children) == 1 and not children[0].children:  # a sum of one
        only = children[0]
        block = replace(only, path=path, title=block.title, paths=(path, only.path))
        counted.update({p: block for p, of in counted.items() if of is only})
    return [block]


def _children(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, child) for name, child in module._modules.items() if child is not None]


def _is_shown(module: nn.Module, role: str) -> bool:
    if role == "hidden":
        return any(True for _ in module.parameters())
    has_state = any(True for _ in module.parameters()) or any(True for _ in module.buffers())
    return has_state or (in_catalog(module) and role != "objective")


def _is_transparent(module: nn.Module) -> bool:
    """Lists of modules, and classes outside of the catalog that hold nothing but layers: their parts are shown instead."""
    if isinstance(module, _LISTS):
        return True
    if in_catalog(module):
        return role_of(module) == "objective"
    return any(isinstance(child, nn.ModuleList) and any(role_of(m) == "layer" for m in child) for child in module.children())


def _is_leaf(module: nn.Module, role: str) -> bool:
    inner = [m for m in module.modules() if m is not module and any(True for _ in m.parameters(recurse=False))]
    if role == "embedding":
        return not any(role_of(m) == "embedding" for m in module.modules() if m is not module)
    if role in CONTAINERS:
        return bool(inner) and all(isinstance(m, nn.RNNBase) for m in inner)
    if role == "other" and not in_catalog(module):
        return all(is_linear(m) or isinstance(m, nn.RNNBase) for m in inner)
    return True


def _own_parameters(path: str, module: nn.Module, counted: dict[Tensor, Block]) -> list[Block]:
    """A block for the parameters that a container holds itself."""
    own = {name: p for name, p in module.named_parameters(recurse=False) if p not in counted}
    if not own:
        return []
    shapes = {name: " × ".join(map(str, p.shape)) or "1" for name, p in own.items()}
    detail = ", ".join(shapes) if len(own) > 1 else next(iter(shapes.values()))
    title = spelled(next(iter(own))) if len(own) == 1 else "Weights"
    block = Block(f"{path}.{next(iter(own))}", title, "", role_of(module), detail, sum(p.numel() for p in own.values()))
    counted.update(dict.fromkeys(own.values(), block))
    return [block]


def _filled(block: Block, module: nn.Module, counted: dict[Tensor, Block]) -> Block:
    """A block without children, with its sizes, its parameters, and the blocks that it shares others with."""
    new = [p for p in module.parameters() if p not in counted]
    shared = [counted[p] for p in module.parameters() if p in counted]
    counted.update(dict.fromkeys(new, block))
    block.detail, block.own = detail_of(module, block.role), sum(p.numel() for p in new)
    block.tied = tuple(dict.fromkeys(other.path for other in shared))
    return block


# -------------------------------------------------------------------------------------------------------- identical layers


def collapse(block: Block) -> None:
    """Merge identical neighbors, recursively: repetitions of one block, and of a sequence of blocks."""
    for child in block.children:
        collapse(child)
    if block.role != "residual":
        block.children = _collapsed(block.children)


def _collapsed(blocks: list[Block]) -> list[Block]:
    signatures = [block.signature() for block in blocks]
    found: list[Block] = []
    at = 0
    while at < len(blocks):
        period, times = _repetition(signatures, at)
        copies = [blocks[at + i * period : at + (i + 1) * period] for i in range(times)]
        found += [_merged(list(same)) for same in zip(*copies, strict=True)] if period == 1 or times == 1 else [_group(copies)]
        at += period * times
    return found


def _repetition(signatures: list[Any], at: int) -> tuple[int, int]:
    """Length and number of the longest repetition that begins at ``at``."""
    best = (1, 1)
    for period in range(1, _LONGEST_PERIOD + 1):
        first, times = signatures[at : at + period], 1
        while len(first) == period and signatures[at + times * period : at + (times + 1) * period] == first:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best


def _merged(same: list[Block]) -> Block:
    """One block for identical ones."""
    first = same[0]
    if len(same) == 1:
        return first
    if first.role == "residual":  # it has no frame to show the number of copies
        first = Block(first.path, "Layer", "", "layer", children=[first], paths=tuple(p for one in same for p in one.paths))
    first.repeat = len(same)
    _adopt(first, same)
    return first


def _group(copies: list[list[Block]]) -> Block:
    """A frame around a sequence of blocks that repeats."""
    first = copies[0]
    group = Block(first[0].path, "Layers", "", "layer", children=first, repeat=len(copies), paths=())
    group.paths = ()
    for i, block in enumerate(first):
        _adopt(block, [copy[i] for copy in copies])
    return group


def _adopt(block: Block, copies: list[Block]) -> None:
    """Add the paths of the copies to a block and to the blocks inside."""
    blocks = list(block.walk())
    for copy in copies:
        others = list(copy.walk())
        if others[0] is blocks[0]:
            continue
        for own, other in zip(blocks[len(blocks) - len(others) :], others, strict=True):
            own.paths = tuple(dict.fromkeys((*own.paths, *other.paths)))
