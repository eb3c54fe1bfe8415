"""Build the stages of a run: networks from the factories of a recipe, with checks that the parts are compatible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from weft.core.contracts import Dataset, Objective, Structure
from weft.core.fields import Info
from weft.core.options import OptionError
from weft.core.registry import CATALOG, base_of, name_of
from weft.core.seeding import Key, seeded
from weft.data.several import merge
from weft.evaluate import Evaluation
from weft.learning.network import Network
from weft.pretrained.vocabulary_check import check_vocabulary
from weft.pretrained.weights import initialize_weights, structures_with_weights
from weft.recipe import Problem, RecipeError, located, problem_at
from weft.training.sources import factories, last_source, objective_info, parts, tokenizers_of

if TYPE_CHECKING:
    from weft.training.run import Run

MAX_STAGES = 100


@dataclass(frozen=True)
class StagePlan:
    """Factories of the four parts of one stage and its evaluation, and the weights to load from the previous stage."""

    index: int
    name: str
    data: Any
    structure: Any
    objective: Any
    learning: Any
    evaluate: Any
    start: dict[str, str]
    new_data: bool

    def evaluation(self) -> Evaluation:
        """Build the evaluation, with the metrics of the first objective where none are chosen."""
        return self.evaluate().of_source("", self._default_metrics(next(iter(factories(self.objective)))))

    def evaluations(self) -> dict[str, Evaluation]:
        """Build the evaluation of each part: of each source, and of each source of a mixture; a single one has the name ""."""
        evaluation, known = self.evaluate(), parts(self)
        if unknown := [name for name in evaluation.source_metrics if name not in known]:
            has = ", ".join(known) if any(known) else "a single, unnamed source; give a list of metrics"
            raise OptionError("metrics", f"metrics names {unknown[0]!r}, but the data has: {has}")
        return {name: evaluation.of_source(name, self._default_metrics(part.objective)) for name, part in known.items()}

    def _default_metrics(self, objective: str) -> tuple[str, ...]:
        return tuple(getattr(base_of(factories(self.objective)[objective]), "metrics", ()))

    def codec_folder(self, folder: Path) -> Path:
        """Return the folder of the fields and tokenizers of the stage's own data, within a run folder."""
        return folder if self.index == 0 else folder / self.name


def plans(run: Run) -> list[StagePlan]:
    """Return the stages of a run in order. The first is the recipe itself, with the name ``main``."""
    if len(run.stages or []) > MAX_STAGES:
        assert run.stages
        text = f"a run has at most {MAX_STAGES} further stages, not {len(run.stages)}"
        raise RecipeError([problem_at(run.stages[MAX_STAGES], text)])
    stages = [StagePlan(0, "main", run.data, run.structure, run.objective, run.learning, run.evaluate, {}, True)]
    for i, build in enumerate(run.stages or [], 1):
        stage, before = build(), stages[-1]
        if stage.name in [p.name for p in stages]:
            raise RecipeError([problem_at(build, f"two stages have the name {stage.name!r}; names must be unique")])
        stages.append(
            StagePlan(
                i,
                stage.name,
                stage.data or before.data,
                stage.structure or before.structure,
                stage.objective or before.objective,
                stage.learning,
                stage.evaluate or before.evaluate,
                stage.start,
                stage.data is not None,
            )
        )
    return stages


def final_key(run: Run, split: str) -> Key:
    """Return the seed of the evaluation of the final weights: the same after a resume, and in ``weft evaluate``."""
    return (run.seed, len(run.stages or []), "final", split)


def plans_with_data(stages: list[StagePlan]) -> list[StagePlan]:
    """Return the stages with their own data; the last stage uses that of the last of them."""
    return [plan for plan in stages if plan.new_data]


def shared_tokenizers(before: StagePlan, plan: StagePlan) -> list[str]:
    """Return the id spaces whose tokenizer is configured as in the previous data. Raises ValueError where another tokenizer
    would change the meaning of ids in weights that are loaded from the previous stage."""
    old, new = tokenizers_of(before), tokenizers_of(plan)
    same = [space for space in new if space in old and new[space].spec() == old[space].spec()]
    other = sorted(new.keys() & old.keys() - set(same))
    if other and "*" in plan.start:
        raise ValueError(
            f"stage {plan.name}: the tokenizer of {', '.join(map(repr, other))} differs from the previous stage, "
            "so ids would have another meaning for the weights loaded from it. Use the same tokenizer "
            "(tokenizer: ${data.tokenizer}), or select the weights to load with start"
        )
    return same


def build_network(
    plan: StagePlan,
    infos: Mapping[str, Info],
    seed: int,
    device: torch.device | str = "cpu",
    check: bool = True,
    report: Callable[[str], None] | None = None,
) -> Network:
    """Build model and objectives of a stage, initialized from the seed. Raises RecipeError for incompatible parts.

    Args:
        plan: The stage.
        infos: Fields of the sources by name. The structure is built on all of them, an objective on those that it is trained on.
        seed: Seed of the run.
        device: Device of the parameters; ``meta`` allocates none.
        check: Whether to check that the structure has what the objectives need.
        report: Loads pretrained weights that the structure names, and is called with a line about each; None = not loaded.
    """
    with seeded(seed, plan.index, "weights"), torch.device(device):
        model = plan.structure(_located_merge(plan, infos))
        builds = factories(plan.objective)
        objectives = {name: _objective(build, plan, name, infos, model.dim) for name, build in builds.items()}
    if report is not None:
        try:
            loaded = initialize_weights(model, plan.structure)
        except ValueError as error:
            raise located(plan.structure, error) from None
        for part, source in loaded.items():
            report(f"weights of {part}: {source}")
    if check:
        for name, objective in objectives.items():
            _check_compatible(model, objective, plan.structure, builds[name])
    return Network(model, objectives)


def check_weights(plan: StagePlan, model: Structure) -> None:
    """Raise RecipeError where the data has another vocabulary than the pretrained weights of a structure."""
    parts, problems = list(structures_with_weights(model, plan.structure)), list[Problem]()
    tokenizers = tokenizers_of(plan) if parts else {}
    for part, build in parts:
        try:
            check_vocabulary(part, tokenizers)
        except ValueError as error:
            problems += located(build, error).problems
    if problems:
        raise RecipeError(problems)


def _located_merge(plan: StagePlan, infos: Mapping[str, Info]) -> Info:
    """Return the fields of all sources. A ValueError becomes a RecipeError at the last of them, not at the structure."""
    try:
        return merge(infos)
    except ValueError as error:
        raise located(last_source(plan), error) from None


def _objective(build: Any, plan: StagePlan, name: str, infos: Mapping[str, Info], dim: int) -> Objective:
    """Build an objective. A ValueError becomes a RecipeError at the objective, not at the structure."""
    try:
        return build(objective_info(plan, name, infos), dim)
    except RecipeError:
        raise
    except ValueError as error:
        raise located(build, error) from None


def _check_compatible(model: Structure, objective: Objective, structure: Any, factory: Any) -> None:
    if missing := [need for need in objective.needs if need not in model.provides()]:
        text = f"the objective {_name(factory, objective)!r} {_needs(missing)}, "
        text += f"but the structure {_name(structure, model)!r} provides: {_provided(model)}{_alternatives(objective.needs)}"
        raise RecipeError([problem_at(factory, text)])


def _needs(protocols: Sequence[type]) -> str:
    return f"needs a structure that provides {' and '.join(need.__name__ for need in protocols)}"


def _provided(model: Structure) -> str:
    return ", ".join(protocol.__name__ for protocol in model.provides()) or "nothing"


def _alternatives(protocols: Sequence[type]) -> str:
    """Return a hint with the structures of the catalog that provide the protocols."""
    bases = {name: base_of(factory) for name, factory in CATALOG[Structure].items()}
    names = [name for name, base in bases.items() if isinstance(base, type) and all(issubclass(base, p) for p in protocols)]
    return f"; use one of: {', '.join(names)}" if names else ""


def check_early_stopping(learning: Any, evaluation: Any) -> None:
    """Raise OptionError where an option of the learning needs evaluations during training."""
    if not evaluation.every and (learning.patience or learning.final == "best"):
        option, what = ("patience", "patience") if learning.patience else ("final", "final: best")
        raise OptionError(option, f"{what} needs evaluations during training; set evaluate.every to a number of steps")


def check_evaluations(plan: StagePlan, evaluations: Mapping[str, Evaluation], infos: Mapping[str, Info]) -> None:
    """Raise ValueError where a metric of a part needs a field that its source does not have."""
    of = parts(plan)
    for name, evaluation in evaluations.items():
        check_evaluation(evaluation, infos[of[name].source])


def check_evaluation(evaluation: Any, info: Info) -> None:
    """Raise ValueError where a metric needs a field that the data does not have."""
    for metric in evaluation.metrics:
        wanted = getattr(metric, "field", "label" if metric.inputs == "label" else None)
        if wanted is not None and wanted not in info:
            name, fields = name_of(type(metric)), ", ".join(info.fields)
            raise ValueError(f"the metric {name} needs {wanted!r}, but the data ({info.data}) has: {fields}{info.hint(wanted)}")
        metric.check(info)


def check_split_sizes(evaluation: Any, splits: Mapping[str, Dataset], last: bool) -> None:
    """Raise ValueError where a metric gets fewer examples than it needs: during training, or at the end of the last stage."""
    sizes = {name: len(splits[name]) for name in ("valid", "test") if last and name in splits}
    if evaluation.every and evaluation.split in splits:
        size = len(splits[evaluation.split])
        sizes["evaluate.max_examples"] = min(size, evaluation.max_examples or size)
    for metric in evaluation.metrics:
        for name, size in sizes.items():
            if size < metric.min_examples:
                has = f"is {size}" if name == "evaluate.max_examples" else f"has {size}"
                raise ValueError(
                    f"the metric {name_of(type(metric))} needs at least {metric.min_examples} examples, but {name} {has}"
                )


def check_metrics(evaluation: Any, model: Structure) -> None:
    """Raise ValueError where a metric needs something that the structure does not provide."""
    for metric in evaluation.metrics:
        if missing := [need for need in metric.needs if need not in model.provides()]:
            raise ValueError(f"the metric {name_of(type(metric))} {_needs(missing)}, but it provides: {_provided(model)}")


def _name(factory: Any, built: Any) -> str:
    return name_of(factory) if base_of(factory) is not None else type(built).__name__


def choose_device(name: str) -> torch.device:
    """Return the device; ``auto`` selects cuda, mps or cpu, in this order. Raises ValueError for one that is not available."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(n for n in ("cuda", "mps", "cpu") if available[n])
    if not available[name]:
        usable = ", ".join(n for n in available if available[n])
        raise ValueError(f"device {name} is not available on this machine (available: {usable})")
    return torch.device(name)
