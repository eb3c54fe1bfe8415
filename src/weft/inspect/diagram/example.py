"""Run a model and its objectives on synthetic examples, to see the data flow and the shapes.

A dimension that follows the number of examples or the length of a field gets a symbol: every pass is made with two sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.batch import Batch, Clock, Ragged, collate
from weft.core.contracts import Objective
from weft.core.fields import Info
from weft.core.seq import Seq
from weft.inspect.diagram.trace import Trace, tracing

EXAMPLES = (3, 5)
"""Examples of the two batches."""
LONGER = (3, 7, 11, 13, 17)
"""By how many tokens each text field is longer in the second batch: all different, and not what EXAMPLES differ by."""
LENGTH, FRAME = 16, 6
"""Tokens of a text in the first batch; room for special tokens around a text, where a model has few positions."""


@dataclass
class Pass:
    """A recorded forward pass: the trace, the terms of every loss, and the sizes of the batch."""

    trace: Trace
    terms: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Objective to term to the modules and inputs that it is computed from."""
    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the inputs by name."""


def run_objectives(
    model: nn.Module, objectives: Mapping[str, Objective], info: Info, watched: Mapping[str, bool]
) -> tuple[Pass, Pass]:
    """Compute every objective on a batch of synthetic examples, twice with different sizes.

    Args:
        model: A structure.
        objectives: Its objectives by name.
        info: The fields of its data.
        watched: The modules to record, as for ``tracing``; paths of the model begin with ``model``.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    roots = {"model": model, **{objective_path(name): objective for name, objective in objectives.items()}}
    passes: list[Pass] = []
    for number in (0, 1):
        with torch.random.fork_rng(), tracing(roots, watched) as recorder:
            found = Pass(recorder.trace)
            for name, objective in objectives.items():
                batch = _batch(info, objective, number).to(device)
                for part, tensor, sequence in _inputs(batch):
                    recorder.mark(part, tensor)
                    found.shapes.setdefault(part, tuple(tensor.shape))
                    if sequence:
                        found.sizes.setdefault(part, tensor.shape[1])
                loss = objective(model, batch, Clock())
                found.terms[name] = {term: recorder.sources_of(value.total) for term, value in loss.items()}
        passes.append(found)
    return passes[0], passes[1]


def run_example(model: nn.Module, example: tuple[Any, ...], watched: Mapping[str, bool]) -> Pass:
    """Call any module on tensors of the user's own: ``model(*example)``."""
    training = model.training
    model.eval()
    try:
        with torch.random.fork_rng(), torch.no_grad(), tracing({"model": model}, watched) as recorder:
            for number, value in enumerate(example, 1):
                recorder.mark(f"input {number}" if len(example) > 1 else "input", value)
            model(*example)
    finally:
        model.train(training)
    return Pass(recorder.trace)


def objective_path(name: str) -> str:
    return f"objective.{name}" if name else "objective"


def _batch(info: Info, objective: Objective, number: int) -> Batch:
    """Synthetic examples, prepared by the objective as for training."""
    rng, sized = np.random.default_rng(0), _sized(info, number)
    others = [sized.synthetic_example(rng) for _ in range(8)]
    instances = []
    for _ in range(64):
        instance = objective.prepare(sized.synthetic_example(rng), rng, others)
        if instance is not None:
            instances.append(instance)
        if len(instances) == EXAMPLES[number]:
            return collate(instances)
    raise ValueError(f"{type(objective).__name__} prepares no instance from examples of {', '.join(info.fields)}")


def _sized(info: Info, number: int) -> Info:
    """The same fields with other lengths of texts."""
    fields = dict(info.fields)
    for at, text in enumerate(info.texts()):
        longer = LONGER[at % len(LONGER)]
        length = min(max(2, text.max_length - FRAME), LENGTH + at + longer)
        fields[text.name] = replace(text, max_length=length if number else max(1, length - longer))
    return replace(info, fields=fields)


def _inputs(batch: Batch) -> Iterator[tuple[str, Tensor, bool]]:
    """What a model may be given of a batch: name, tensor, and whether it is a sequence."""
    for name, value in batch.fields.items():
        if isinstance(value, Batch):
            yield from _inputs(value)
        elif isinstance(value, Seq | Ragged):
            data = (value.seq if isinstance(value, Ragged) else value).data
            yield name, data, data.ndim == 2
        elif isinstance(value, Tensor):
            yield name, value, False


# ------------------------------------------------------------------------------------------------------------------ symbols


class Shapes:
    """Shapes with symbols: B for examples, T and S for lengths, N for another number that depends on the batch.

    Args:
        one: The first pass.
        two: The same with another number of examples and other lengths.
    """

    def __init__(self, one: Pass, two: Pass):
        self.one, self.two = one, two
        self.pairs: list[tuple[str, int, int]] = [("B", *EXAMPLES)]
        for name, size in one.sizes.items():
            symbol = "S" if name == "source" else "T"
            if name in two.sizes and size != two.sizes[name]:
                self.pairs.append((symbol, size, two.sizes[name]))
        self.used: dict[str, None] = {}

    def of(self, path: str) -> str:
        """The shape of a module's output."""
        return self._written(self.one.trace.shapes.get(path), self.two.trace.shapes.get(path))

    def between(self, producer: str, consumer: str) -> str:
        """The shape of what one module uses of the output of another."""
        edge = producer, consumer
        return self._written(self.one.trace.edges.get(edge), self.two.trace.edges.get(edge))

    def of_input(self, name: str) -> str:
        return self._written(self.one.shapes.get(name), self.two.shapes.get(name))

    def _written(self, one: tuple[int, ...] | None, two: tuple[int, ...] | None) -> str:
        if one is None or two is None or len(one) != len(two):
            return ""
        return " × ".join(self._symbol(a, b) for a, b in zip(one, two, strict=True))

    def _symbol(self, one: int, two: int) -> str:
        if one == two:
            return str(one)
        exact = next((symbol for symbol, a, b in self.pairs if (a, b) == (one, two)), None)
        near = next(((s, one - a) for s, a, b in self.pairs[1:] if b - a == two - one and 0 < abs(one - a) <= 3), None)
        symbol = exact or (near[0] if near else "N")
        self.used.setdefault(symbol)
        return symbol if exact or not near else f"{symbol} {'+' if near[1] > 0 else '−'} {abs(near[1])}"
