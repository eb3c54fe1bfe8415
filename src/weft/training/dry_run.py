"""``weft check``: build a recipe without preparing data, and report its modules, parameters, memory and operations."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn

from weft.core.batch import Batch, Clock, Instance, collate
from weft.core.contracts import Data, Objective
from weft.core.fields import Info
from weft.core.seq import Seq
from weft.data.several import merge
from weft.evaluate.parts import check_monitor
from weft.learning import Network, PhaseNeverRunsError, TrainingLoop, match_weights
from weft.learning.nonfinite import tensors_in
from weft.learning.phase import Phase
from weft.pretrained.empty_init import SkipInit
from weft.recipe import Problem, RecipeError, deduplicate, located
from weft.training.build import (
    StagePlan,
    build_network,
    check_early_stopping,
    check_evaluations,
    check_metrics,
    check_weights,
    choose_device,
    plans,
    plans_with_data,
    shared_tokenizers,
)
from weft.training.flops import count_cost
from weft.training.run import Run
from weft.training.sources import declare, factories, last_source, parts, source_of

MAX_LAYERS = 1000
"""Layers of all stacks of a structure. The check takes about 5 ms for each."""

# Weights, gradients, and the largest optimizer state (Adam: two tensors), in fp32.
_BYTES_PER_PARAMETER = 4 * (1 + 1 + 2)

_MAX_EXAMPLES = 4096
"""Most examples of a batch that is computed; the cost of larger batches is scaled."""
_MANY_BATCHES = 10**6
"""Batches of an epoch for the check of a recipe with ``epochs``: their number is known from the data only."""
# Smaller networks are run on the CPU: operations on the meta device run in Python and import torch's compiler first.
_SMALL_PARAMETERS, _SMALL_OPERATIONS = 2**23, 3 * 10**10


@dataclass
class ModuleRow:
    """One module of the network: its name, class, output shape, and number of parameters."""

    name: str
    kind: str
    shape: str
    parameters: int


@dataclass
class StageReport:
    """Result of the check of one stage."""

    stage: str
    info: Info
    rows: list[ModuleRow]
    parameters: int
    memory: int
    """Bytes of weights, gradients, optimizer state, and activations of one batch."""
    operations: int
    """Floating-point operations of the forward and backward passes of one round."""
    batch: tuple[int, int] = (0, 0)
    """Examples and tokens of a batch."""
    scaled_from: int = 0
    """Tokens of the batch that was computed, where memory and operations are scaled from it to a larger batch; else 0."""
    terms: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Parameters that no phase trains: frozen by its globs, or unused by its objective."""


def check(run: Run) -> list[StageReport]:
    """Check every stage of a run. Raises RecipeError with the problems of all parts that can be built, each with its location.

    A device that this machine lacks is a problem, as it is in training.
    """
    problems: list[Problem] = []
    reports: list[StageReport] = []

    def attempt(build: Callable[..., Any], part: Any, *args: Any) -> Any:
        try:
            return build(*args)
        except RecipeError as error:
            problems.extend(error.problems)
        except ValueError as error:
            problems.extend(located(part, error).problems)
        return None

    attempt(_check_device, None, run.device)
    stages, before = plans(run), None
    _check_depth(stages)
    for plan in stages:
        evaluation = attempt(plan.evaluation, plan.evaluate)
        learning = attempt(plan.learning, plan.learning)
        for factory in factories(plan.data).values():
            attempt(_check_source, factory, factory, plan.new_data)
        infos = attempt(declare, last_source(plan), plan)
        if infos is not None and plan.new_data and plan.index and not problems:
            attempt(shared_tokenizers, last_source(plan), plans_with_data(stages[: plan.index])[-1], plan)
        if learning is not None and infos is not None and evaluation is not None:
            attempt(check_early_stopping, plan.learning, learning, evaluation)
            attempt(_check_evaluations, plan.evaluate, plan, infos)
        with SkipInit():
            network = attempt(build_network, plan.structure, plan, infos, run.seed, "meta") if infos is not None else None
        if network is not None:
            attempt(check_weights, plan.structure, plan, network.model)
        if network is not None and before is not None:
            attempt(_check_start, None, (run.stages or [])[plan.index - 1], network, before, plan.start)
        before = network
        if network is not None and evaluation is not None and not problems:
            attempt(_check_metrics, plan.evaluate, plan, network)
        if not problems:
            report = attempt(_report, plan.structure, plan, learning, infos, network)
            reports += [report]
            if report is not None and evaluation is not None and network is not None and evaluation.every:
                attempt(_check_monitor, plan.evaluate, plan, network, evaluation.monitor, report.terms)
    if problems:
        raise RecipeError(deduplicate(problems, run.copies))
    return reports


def _check_source(factory: Any, files: bool) -> None:
    """Build and declare a source. ``files``: whether to check its files too."""
    source: Data = factory()
    source.declare()
    if files:
        source.check_files()


def _check_evaluations(plan: StagePlan, infos: Mapping[str, Info]) -> None:
    """Raise ValueError for a metric that does not fit its source; default metrics fit where the objective does."""
    evaluation = plan.evaluate()
    check_evaluations(plan, {name: evaluation.of_source(name) for name in plan.evaluations()}, infos)


def _check_metrics(plan: StagePlan, network: Network) -> None:
    """Raise ValueError where a metric needs something that the structure does not provide."""
    for evaluation in plan.evaluations().values():
        check_metrics(evaluation, network.model)


def _check_monitor(plan: StagePlan, network: Network, monitor: str, terms: list[str]) -> None:
    """Raise ValueError where no evaluation returns the monitored value."""
    objectives = {name: network.objectives[part.objective] for name, part in parts(plan).items()}
    check_monitor(monitor, plan.evaluations(), objectives, terms)


def _check_device(name: str) -> None:
    """Raise ValueError for a device that this machine lacks."""
    try:
        choose_device(name)
    except ValueError as error:
        raise ValueError(f"{error}; to check a recipe for another machine, add device=auto") from None


def _check_depth(stages: list[StagePlan]) -> None:
    """Raise RecipeError at the deepest stack of a structure with more layers than can be checked in a few seconds."""
    problems: list[Problem] = []
    for plan in stages:
        stacks = list(_stacks(plan.structure))
        if (total := sum(layers for _, layers in stacks)) > MAX_LAYERS:
            part, layers = max(stacks, key=lambda stack: stack[1])
            found = f"layers is {layers}" + (f", {total} in all stacks" if total > layers else "")
            problems += located(part, ValueError(f"{found}; a structure has at most {MAX_LAYERS} layers"), "layers").problems
    if problems:
        raise RecipeError(problems)


def _stacks(part: Any) -> Iterator[tuple[Any, int]]:
    """Yield the parts of a recipe that have an option ``layers``, with its value."""
    if isinstance(part, list | tuple):
        for one in part:
            yield from _stacks(one)
    elif isinstance(part, dict):
        yield from _stacks(list(part.values()))
    elif isinstance(part, functools.partial):
        if isinstance(layers := part.keywords.get("layers"), int):
            yield part, layers
        yield from _stacks(part.keywords)


def _check_start(part: Any, network: Network, before: Network, start: dict[str, str]) -> None:
    """Raise RecipeError where ``start`` matches no weights of the previous stage."""
    try:
        match_weights(network.tensors(), before.tensors(), start)
    except ValueError as error:
        raise located(part, error, "start") from error


def _build_loop(plan: StagePlan, learning: Any, network: Network, device: str) -> TrainingLoop:
    """Build the training loop. Raises RecipeError at the phase that has the problem."""

    def make_feed(phase: Phase, objective: Objective, name: str) -> _NoFeed:
        source_of(phase, factories(plan.data))
        return _NoFeed(1 if learning.epochs is None else _MANY_BATCHES)

    def build(options: Any) -> TrainingLoop:
        return TrainingLoop(
            network, options, make_feed, _NoCallbacks(), seed=0, stage=0, device=torch.device(device), precision="fp32"
        )

    try:
        return build(learning)
    except ValueError as error:
        parts = getattr(plan.learning, "keywords", {}).get("phases") or []
        problems: list[Problem] = []
        for part, phase in zip(parts, learning.phases, strict=False):
            alone = copy.copy(learning)
            alone.phases = [phase]
            try:
                build(alone)
            except ValueError as problem:
                option = "start" if isinstance(problem, PhaseNeverRunsError) else getattr(problem, "option", "")
                inherited = option and getattr(phase, option, None) is None  # by the phase, from the learning
                problems += located(plan.learning if inherited else part, problem, option).problems
        raise RecipeError(problems or located(plan.learning, error).problems) from error


def _report(plan: StagePlan, learning: Any, infos: Mapping[str, Info], network: Network) -> StageReport:
    learning.compile = False  # the check does not need a compiled step
    loop, device = _build_loop(plan, learning, network, "meta"), "meta"
    by_phase = [infos[source_of(phase.phase, infos)] for phase in loop.phases]
    batches = [_build_batch(plan, network, info, p.objective, learning) for info, p in zip(by_phase, loop.phases, strict=True)]
    number = sum(p.numel() for p in network.parameters().values())
    if number <= _SMALL_PARAMETERS and 6 * number * sum(batch.tokens() for batch in batches) <= _SMALL_OPERATIONS:
        device = "cpu"
        network = build_network(plan, infos, 0, device, check=False)
        loop = _build_loop(plan, learning, network, device)
    parameters = network.parameters()
    activations, operations, terms = 0, 0, list[str]()
    shapes: dict[str, str] = {}
    idle, size, scaled_from = dict.fromkeys(parameters), (0, 0), 0
    for info, phase, batch in zip(by_phase, loop.phases, batches, strict=True):
        examples = max(len(batch), batch_examples(info, phase.objective, learning))
        scale = examples / len(batch) if examples > _MAX_EXAMPLES else 1.0
        size = (examples, round(batch.tokens() * scale)) if scale > 1 else (len(batch), batch.tokens())
        scaled_from = batch.tokens() if scale > 1 else 0
        with _shapes(network, shapes):
            try:
                with count_cost() as cost:
                    loss = phase.step(batch.to(device), Clock())
                    loss.mean().backward()
            except RecipeError:
                raise
            except ValueError as error:
                raise located(plan.structure, error) from error
        for name in phase.parameters:
            if parameters[name].grad is not None:
                idle.pop(name, None)
        loop.network.model.zero_grad(set_to_none=True)
        activations = max(activations, round(cost.kept * scale))
        operations += round(cost.operations * scale) * phase.accumulate * phase.phase.repeat
        terms += [name for name in loss if name not in terms]
    rows = [ModuleRow(n, type(m).__name__, shapes.get(n, ""), _count_parameters(m)) for n, m in _named_modules(network)]
    memory = number * _BYTES_PER_PARAMETER + activations
    return StageReport(plan.name, merge(infos), rows, number, memory, operations, size, scaled_from, terms, list(idle))


def _build_batch(plan: StagePlan, network: Network, info: Info, objective: Objective, learning: Any) -> Batch:
    """Build a synthetic batch. Raises RecipeError at the objective that cannot use the data."""
    try:
        return synthetic_batch(info, objective, batch_examples(info, objective, learning))
    except ValueError as error:
        name = next(name for name, one in network.objectives.items() if one is objective)
        part = plan.objective[name] if isinstance(plan.objective, dict) else plan.objective
        raise located(part, error) from error


def synthetic_batch(info: Info, objective: Objective, examples: int) -> Batch:
    """Return a batch of synthetic examples, at most 4,096."""
    rng = np.random.default_rng(0)
    info.synthetic_example(rng)
    others = [info.synthetic_example(rng) for _ in range(8)]
    instances: list[Instance] = []
    for _ in range(min(_MAX_EXAMPLES, examples)):
        instance = objective.prepare(info.synthetic_example(rng), rng, others)
        if instance is not None:
            instances.append(instance)
    if not instances:
        raise ValueError(f"{type(objective).__name__} skips all examples of this data; they may be too short")
    return collate(instances)


def batch_examples(info: Info, objective: Objective, learning: Any) -> int:
    """Return the number of synthetic examples of a batch: ``batch_size``, or as many as fill ``batch_tokens``."""
    if learning.batch_size:
        return learning.batch_size
    lengths = {
        name: np.array([length]) for name, length in info.lengths(info.synthetic_example(np.random.default_rng(0))).items()
    }
    cost = int(objective.cost(lengths or {"": np.array([1])})[0])
    return max(1, learning.batch_tokens // max(1, cost))


def memory_problem(report: StageReport) -> str | None:
    """Return a message if weights, gradients and optimizer state exceed the memory of this machine."""
    needed, memory = report.parameters * _BYTES_PER_PARAMETER, psutil.virtual_memory().total
    if needed <= memory:
        return None
    return f"training {report.parameters:,} parameters needs {needed / 1e9:,.0f} GB; this machine has {memory / 1e9:,.0f} GB"


def batch_problem(report: StageReport) -> str | None:
    """Return a message if a full batch exceeds the memory of this machine. A small dataset may not fill it."""
    memory = psutil.virtual_memory().total
    if report.memory <= memory or memory_problem(report):
        return None
    return (
        f"a batch of {report.batch[1]:,} tokens needs about {report.memory / 1e9:,.0f} GB; this machine has "
        f"{memory / 1e9:,.0f} GB: lower learning.batch_tokens or learning.batch_size"
    )


def _named_modules(network: Network) -> list[tuple[str, nn.Module]]:
    """Return the modules to report: two levels of the structure, and the objectives with parameters."""
    found: list[tuple[str, nn.Module]] = []
    for name, child in network.model.named_children():
        found.append((name, child))
        for inner, part in child.named_children():
            if _count_parameters(part) and isinstance(part, nn.ModuleList):
                found += [(f"{name}.{inner}.{i}", p) for i, p in enumerate(part)]
            elif _count_parameters(part):
                found.append((f"{name}.{inner}", part))
    found += [(prefix.rstrip("."), m) for prefix, m in network.modules() if prefix and _count_parameters(m)]
    return found


def _count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


class _shapes:
    """Records the output shape of every reported module."""

    def __init__(self, network: Network, shapes: dict[str, str]):
        self.network, self.shapes = network, shapes

    def __enter__(self) -> None:
        self.handles = [m.register_forward_hook(self._hook(n)) for n, m in _named_modules(self.network)]

    def _hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            first = output.data if isinstance(output, Seq) else next(tensors_in(output), None)
            if first is not None:
                self.shapes.setdefault(name, " x ".join(map(str, first.shape)))

        return hook

    def __exit__(self, *exc: object) -> None:
        for handle in self.handles:
            handle.remove()


class _NoFeed:
    """A feed without batches; an epoch has ``batches``, as far as the check is concerned."""

    name = ""

    def __init__(self, batches: int):
        self.batches = batches

    def counts(self) -> dict[str, int]:
        return {}

    def __len__(self) -> int:
        return self.batches

    def batch(self, draw: int, without: frozenset[int] = frozenset(), rank: int = 0, world: int = 1) -> Batch | None:
        return None


class _NoCallbacks:
    """Callbacks for a loop that is not run."""

    def on_log(self, row: dict[str, Any]) -> None: ...

    def should_evaluate(self, progress: Any, last: bool) -> bool:
        return False

    def evaluate(self, progress: Any, last: bool) -> float | None:
        return None

    def save(self, tensors: Any, documents: Any, progress: Any) -> None: ...

    def restore(self) -> Any: ...

    def should_stop(self) -> bool:
        return True
