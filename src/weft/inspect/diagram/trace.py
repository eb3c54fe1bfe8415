"""Record one forward pass: which module runs when, which module's output it consumes, and the shapes in between."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from weft.learning.nonfinite import tensors_in

INPUT = "input:"
"""Prefix of the names of inputs among the producers of a tensor."""


@dataclass
class Trace:
    """What happened in a forward pass. Modules are identified by their paths.

    Args:
        order: Path to the position in the order of execution.
        calls: Path to the number of forward calls.
        visits: Path to the number of calls of any method from outside of the module.
        inside: Path to the path of the module that called it first, where that is not a module around it.
        edges: Pairs (producer, consumer) to the shape of what the consumer uses of the producer's output, or of an input.
        shapes: Path to the shape of the output of its first forward call; of a head, that of the logits.
        reuses: Path of a module to the paths of modules whose parameters it uses, such as a head tied to an embedder.
    """

    order: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    reuses: dict[str, dict[str, None]] = field(default_factory=dict)


@contextmanager
def tracing(roots: Mapping[str, nn.Module], watched: Mapping[str, bool]) -> Iterator[Recorder]:
    """Record what modules compute inside the context, on any device.

    Args:
        roots: The whole modules, each with the prefix of its paths.
        watched: Paths of the modules that are recorded, with whether they are shown without parts. What other modules compute is
            attributed to those around them.
    """
    recorder = Recorder(roots, watched)
    with ExitStack() as stack:
        for path in (*roots, *watched):
            if path in recorder.modules:
                stack.enter_context(_watched(recorder, path, recorder.modules[path]))
        stack.enter_context(recorder)
        yield recorder


class Recorder(TorchDispatchMode):
    """Follows tensors through a forward pass: every storage carries the paths of the modules that produced it."""

    def __init__(self, roots: Mapping[str, nn.Module], watched: Mapping[str, bool]):
        super().__init__()
        self.trace = Trace()
        self.roots, self.watched = set(roots), dict(watched)
        self.modules: dict[str, nn.Module] = {}
        known: set[nn.Module] = set()
        for root, top in roots.items():
            for name, module in top.named_modules():
                if module not in known:
                    known.add(module)
                    self.modules[f"{root}.{name}" if name else root] = module
        self.owners: dict[int, str] = {}
        for path, module in self.modules.items():
            for own in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
                self.owners.setdefault(_storage(own), path)
        self.parameters = {_storage(p) for module in roots.values() for p in module.parameters()}
        self.stack: list[tuple[str, int]] = []
        self.producers: dict[int, dict[str, None]] = {}
        self.views: dict[int, dict[str, None]] = {}
        """Producers of outputs that are views of a parameter, by the tensor itself: the storage belongs to the parameter."""
        self.born: dict[int, int] = {}
        self.kept: list[Any] = []
        self.clock = 0
        self.losses = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch imports its compiler

    def mark(self, name: str, value: Any) -> None:
        """Name the tensors in ``value`` as an input of the pass."""
        for tensor in tensors_in(value):
            self.kept.append(tensor.untyped_storage())
            self.producers[_storage(tensor)] = {f"{INPUT}{name}": None}
            self.born[_storage(tensor)] = 0

    def sources_of(self, value: Any) -> list[str]:
        """Paths of the modules, and names of the inputs, from whose outputs the tensors in ``value`` were computed."""
        return list(dict.fromkeys(s for tensor in tensors_in(value) for s in self.producers.get(_storage(tensor), {})))

    # ------------------------------------------------------------------------------------------------------ operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.clock += 1
        sources: dict[str, tuple[int, ...]] = {}
        for tensor in tensors_in((args, kwargs or {})):
            if tensor.dtype != torch.bool:  # masks are not part of the data flow
                for source in self._producers(tensor):
                    sources.setdefault(source, tuple(tensor.shape))
            self._reuse(_storage(tensor))
        self._consume(sources)
        for tensor in tensors_in(result):
            if (key := _storage(tensor)) not in self.owners:
                if key not in self.born:
                    self.kept.append(tensor.untyped_storage())
                    self.born[key] = self.clock
                self.producers[key] = {**self.producers.get(key, {}), **dict.fromkeys(sources)}
        return result

    def _producers(self, tensor: Tensor) -> dict[str, None]:
        return self.views.get(id(tensor)) or self.producers.get(_storage(tensor), {})

    def _consume(self, sources: Mapping[str, tuple[int, ...]]) -> None:
        for path, _ in self.stack:
            self.trace.order.setdefault(path, len(self.trace.order))
        if self.stack:
            for source, shape in sources.items():
                if not (self.losses and source.startswith(INPUT)):  # the targets of a loss are no input of the model
                    self.trace.edges.setdefault((source, self.stack[-1][0]), shape)

    def _reuse(self, key: int) -> None:
        """Note that the innermost module uses a parameter that neither it nor a module around or inside it owns."""
        if key in self.parameters and self.stack:
            path, owner = self.stack[-1][0], self.owners[key]
            if not is_within(path, owner) and not is_within(owner, path):
                self.trace.reuses.setdefault(path, {}).setdefault(owner)

    # ---------------------------------------------------------------------------------------------------------- modules

    def enter(self, path: str, *, forward: bool) -> None:
        if forward:
            self.trace.calls[path] = self.trace.calls.get(path, 0) + 1
        if not any(path == other for other, _ in self.stack):
            self.trace.visits[path] = self.trace.visits.get(path, 0) + 1
        if self.stack:
            caller = self.stack[-1][0]
            if not is_within(path, caller):
                self.trace.inside.setdefault(path, caller)
        self.stack.append((path, self.clock))

    def leave(self, path: str, output: Any, *, forward: bool) -> None:
        _, entered = self.stack.pop()
        if forward and (shape := first_shape(output)) is not None:
            self.trace.shapes.setdefault(path, shape)
        if path in self.roots or not (forward or self.watched[path]):
            return  # such as a method of a structure, of which one part or another has computed the result
        for tensor in tensors_in(output):
            if self.born.get(_storage(tensor), 0) > entered:  # not an input that is passed on
                self.producers[_storage(tensor)] = {path: None}
            elif forward and _storage(tensor) in self.parameters and not isinstance(tensor, nn.Parameter):
                self.kept.append(tensor)
                self.views[id(tensor)] = {path: None}


def is_within(path: str, other: str) -> bool:
    """Whether ``path`` is ``other`` or a part of it."""
    return path == other or path.startswith(f"{other}.")


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


@contextmanager
def _watched(recorder: Recorder, path: str, module: nn.Module) -> Iterator[None]:
    """Report every call of the module's ``forward`` and of its other public methods to the recorder."""

    def before(module: nn.Module, args: Any) -> None:
        recorder.enter(path, forward=True)

    def after(module: nn.Module, args: Any, output: Any) -> None:
        recorder.leave(path, output, forward=True)

    handles = [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    wrapped = {name: _wrap(recorder, path, module, name) for name in _public_methods(type(module)) if name not in vars(module)}
    vars(module).update(wrapped)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for name in wrapped:
            del vars(module)[name]


def _wrap(recorder: Recorder, path: str, module: nn.Module, name: str) -> Callable[..., Any]:
    method = getattr(module, name)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder.enter(path, forward=False)
        recorder.losses += name == "nll"
        output = method(*args, **kwargs)
        recorder.losses -= name == "nll"
        recorder.leave(path, output, forward=False)
        if name == "nll" and args and isinstance(args[0], Tensor) and isinstance(vocab := getattr(module, "vocab", None), int):
            recorder.trace.shapes.setdefault(path, (*args[0].shape[:-1], vocab))  # of the logits, which a head need not keep
        return output

    return call


def _public_methods(kind: type) -> list[str]:
    """Names of the methods that a class adds to those of ``nn.Module``."""
    return [
        name
        for name in dir(kind)
        if not name.startswith("_") and not hasattr(nn.Module, name) and inspect.isfunction(inspect.getattr_static(kind, name))
    ]


def first_shape(output: Any) -> tuple[int, ...] | None:
    """The shape of the first tensor in the output of a module."""
    first = next(tensors_in(output), None)
    return None if first is None else tuple(first.shape)
