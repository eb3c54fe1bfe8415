"""Combine blocks with a recorded forward pass: order, shapes, tied weights, and the data flow between blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn

from weft.inspect.diagram.trace import INPUT, Trace
from weft.inspect.diagram.tree import Block, Edge, collapse

_SUFFIX = "_residual"


def connect(top: Block, trace: Trace, shape: Callable[[str], str], between: Callable[[str, str], str]) -> None:
    """Add order, shapes, ties and data flow of a forward pass to the blocks, then collapse identical layers.

    Args:
        top: The blocks, as ``outline`` returns them; modified.
        trace: The forward pass.
        shape: The shape that is written for the output of a module.
        between: The shape that is written for what one module uses of the output of another.
    """
    _nest(top, trace)
    for block in top.walk():
        block.shape = shape(block.path)
        block.tied = tuple(dict.fromkeys((*block.tied, *trace.reuses.get(block.path, ()))))
    _count_applications(top, trace)
    _lift(top, trace, between)
    _sort(top, trace)
    collapse(top)
    for block in top.walk():
        block.edges.clear()
        block.inputs.clear()
    _mark_unused(top, set(trace.order))
    _lift(top, trace, between)
    _name_ties(top)


def connect_static(top: Block, modules: dict[str, nn.Module]) -> None:
    """Prepare the blocks of a model that was not run: in the order in which its modules are registered."""
    _nest(top, Trace())
    _sort(top, Trace())
    for block in top.walk():
        if block.path in modules:
            held = (value for value in vars(modules[block.path]).values() if isinstance(value, tuple))
            others = [m for value in held for m in value if isinstance(m, nn.Module)]
            block.tied = (*block.tied, *(path for path, module in modules.items() if any(module is m for m in others)))
    collapse(top)
    _name_ties(top)


def _name_ties(top: Block) -> None:
    """Let tied weights refer to the outermost embedder rather than to a part of it."""
    lines = {path: line for line in _lines(top) for path in line[-1].paths}
    for block in top.walk():
        found = []
        for path in block.tied:
            while path and path not in lines:
                path = path.rpartition(".")[0]
            if path:
                found.append(next(around.path for around in lines[path] if around.role == lines[path][-1].role))
        block.tied = tuple(dict.fromkeys(found))


def _nest(block: Block, trace: Trace) -> None:
    """Move sub-layers into the residual connections that call them; the parts of a connection without any go to its parent."""
    for child in list(block.children):
        _nest(child, trace)
    residuals = {child.path: child for child in block.children if child.role == "residual"}
    filled: set[str] = set()
    for child in list(block.children):
        around = trace.inside.get(child.path, "") if child.path in trace.order else f"{child.path}{_SUFFIX}"
        if around in residuals:
            filled.add(around)
            block.children.remove(child)
            residuals[around].children.append(child)
    for path, residual in residuals.items():
        if path not in filled:
            at = block.children.index(residual)
            block.children[at : at + 1] = residual.children
        elif path not in trace.order and not residual.kind.startswith("pre"):
            residual.children.reverse()


def _mark_unused(block: Block, ran: set[str]) -> None:
    """Mark blocks that the pass did not use. Position encodings and parameters of a container follow the container."""
    for child in block.children:
        own = child.role == "position" or not child.kind
        child.ran = block.ran and (own or any(path in ran for inner in child.walk() for path in inner.paths))
        _mark_unused(child, ran)


def _count_applications(block: Block, trace: Trace) -> None:
    for child in block.children:
        calls, around = trace.calls.get(child.path, 0), trace.visits.get(block.path, 1)
        if child.role == "layer" and calls > around and calls % around == 0:
            child.applied = calls // around
        _count_applications(child, trace)


def _sort(block: Block, trace: Trace) -> None:
    """In the order of the data flow, and of the first execution where that leaves a choice; position encodings first."""
    last = len(trace.order)

    def first_run(child: Block) -> tuple[bool, int]:
        ran = [trace.order[path] for inner in child.walk() for path in inner.paths if path in trace.order]
        return child.role != "position", min(ran, default=last)

    left = sorted(block.children, key=first_run)
    ordered: list[Block] = []
    while left:
        ready = (b for b in left if not any((other, b) in block.edges for other in left if other is not b))
        chosen = next(ready, left[0])  # in a cycle, the one that ran first
        left.remove(chosen)
        ordered.append(chosen)
    block.children = ordered
    for child in block.children:
        _sort(child, trace)


# --------------------------------------------------------------------------------------------------------------- data flow


def _lift(top: Block, trace: Trace, between: Callable[[str, str], str]) -> None:
    """Give every block the edges between its children, and the inputs that are used inside."""
    lines = {path: line for line in _lines(top) for path in line[-1].paths}
    for producer, consumer in trace.edges:
        to = lines.get(consumer)
        if to is None:
            continue
        if producer.startswith(INPUT):
            for block in to[1:]:
                block.inputs.setdefault(producer.removeprefix(INPUT))
        elif producer in lines and "position" not in (lines[producer][-1].role, to[-1].role):
            _connect(lines[producer], to, between(producer, consumer))


def _lines(block: Block, above: tuple[Block, ...] = ()) -> Iterable[tuple[Block, ...]]:
    """Every block as the last of those around it, outermost first."""
    line = (*above, block)
    yield line
    for child in block.children:
        yield from _lines(child, line)


def _connect(producer: tuple[Block, ...], consumer: tuple[Block, ...], shape: str) -> None:
    depth = 0
    while depth < min(len(producer), len(consumer)) and producer[depth] is consumer[depth]:
        depth += 1
    if depth < min(len(producer), len(consumer)):  # otherwise one is inside the other
        ends = producer[depth], consumer[depth]
        producer[depth - 1].edges.setdefault(ends, Edge(producer[-1], consumer[-1], shape))
