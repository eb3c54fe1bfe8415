"""From a recipe's factories to networks: stages laid out, parts built and checked against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from weft.core.contracts import Dataset, Objective
from weft.core.fields import Info
from weft.core.registry import base_of, name_of
from weft.core.seeding import key
from weft.learning.network import Network
from weft.pretrained.vocabulary_check import check_vocabulary
from weft.pretrained.weights import initialize_weights, structures_with_weights
from weft.recipe import Part, Problem, RecipeError

if TYPE_CHECKING:
    from weft.training.run import Run


@dataclass(frozen=True)
class StagePlan:
    """The four parts of one stage (factories), how it is judged, and which weights it starts from."""

    index: int
    name: str
    data: Any
    structure: Any
    objective: Any
    learning: Any
    evaluate: Any
    start: dict[str, str]
    new_data: bool

    def place(self, folder: Path) -> Path:
        """Where in a run's folder the fields and tokenizers of its own data are kept."""
        return folder if self.index == 0 else folder / self.name


def plans(run: Run) -> list[StagePlan]:
    """The stages of a run in order. The first is the recipe itself, called ``main``."""
    found = [StagePlan(0, "main", run.data, run.structure, run.objective, run.learning, run.evaluate, {}, True)]
    for i, build in enumerate(run.stages or [], 1):
        stage, before = build(), found[-1]
        if stage.name in [p.name for p in found]:
            raise _refuse(build, f"the stage name {stage.name!r} is there twice")
        found.append(
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
    return found


def with_data(stages: list[StagePlan]) -> list[StagePlan]:
    """Those that have data of their own; the last of them is what the last stage has."""
    return [plan for plan in stages if plan.new_data]


def same_tokenizers(before: StagePlan, plan: StagePlan) -> list[str]:
    """The id spaces whose tokenizer a stage describes in the same words as the data before. Raises ValueError where it has
    another one, and takes over the weights that stand for its ids."""
    old, new = before.data().tokenizers(), plan.data().tokenizers()
    same = [space for space in new if space in old and new[space].spec() == old[space].spec()]
    other = sorted(new.keys() & old.keys() - set(same))
    if other and "*" in plan.start:
        raise ValueError(
            f"stage {plan.name}: the tokenizer of {', '.join(map(repr, other))} is described otherwise than before, "
            "so that ids would mean something else to the weights that are taken over. Describe the same one "
            "(tokenizer: ${data.tokenizer}), or say with start which weights are taken"
        )
    return same


def build_network(
    plan: StagePlan,
    info: Info,
    seed: int,
    device: torch.device | str = "cpu",
    check: bool = True,
    tell: Callable[[str], None] | None = None,
) -> Network:
    """Model and objectives of a stage, initialised from the seed; refused where they do not fit each other.

    With ``tell``, the structure begins with the weights that it names (see ``models.pretrained.begin``), and is told about.
    """
    torch.manual_seed(key(seed, plan.index, "weights"))
    with torch.device(device):
        model = plan.structure(info)
        factories = plan.objective if isinstance(plan.objective, dict) else {"": plan.objective}
        objectives = {name: _objective(build, info, model.dim) for name, build in factories.items()}
    if tell is not None:
        try:
            taken = initialize_weights(model, plan.structure)
        except ValueError as error:
            raise _refuse(plan.structure, str(error)) from None
        for place, what in taken.items():
            tell(f"weights of {place}: {what}")
    if check:
        for name, objective in objectives.items():
            _check_fit(model, objective, plan.structure, factories[name])
    return Network(model, objectives)


def check_weights(plan: StagePlan, model: Any) -> None:
    """Raises RecipeError where a structure begins with published weights, and the data has other ids than they were made for."""
    parts, problems = list(structures_with_weights(model, plan.structure)), list[Problem]()
    tokenizers = plan.data().tokenizers() if parts else {}
    for part, build in parts:
        try:
            check_vocabulary(part, tokenizers)
        except ValueError as error:
            problems += _refuse(build, str(error)).problems
    if problems:
        raise RecipeError(problems)


def _objective(build: Any, info: Info, dim: int) -> Objective:
    """Raises RecipeError where it stands, in place of a ValueError: it is not the structure that is wrong."""
    try:
        return build(info, dim)
    except RecipeError:
        raise
    except ValueError as error:
        raise _refuse(build, str(error)) from None


def _check_fit(model: Any, objective: Objective, structure: Any, factory: Any) -> None:
    missing = [need.__name__ for need in objective.needs if need not in model.provides()]
    if missing:
        has = ", ".join(p.__name__ for p in model.provides()) or "nothing"
        raise _refuse(
            factory,
            f"the objective {_name(factory, objective)!r} needs a structure that {' and '.join(missing)}, "
            f"but the structure {_name(structure, model)!r} has: {has}",
        )


def check_evaluation(learning: Any, evaluation: Any, info: Info) -> None:
    """Raises ValueError where learning waits for evaluations that never come, or a metric for a field that is not there."""
    if not evaluation.every and (learning.patience or learning.final == "best"):
        what = "patience" if learning.patience else "final: best"
        raise ValueError(f"{what} needs evaluations during training: set evaluate.every to a number of rounds")
    for metric in evaluation.metrics:
        wanted = getattr(metric, "field", "label" if metric.inputs == "label" else None)
        if wanted is not None and wanted not in info:
            name, there = name_of(type(metric)), ", ".join(info.fields)
            raise ValueError(f"the metric {name} compares {wanted!r}, but the data ({info.data}) has: {there}{info.hint(wanted)}")
        metric.check(info)


def check_rows(evaluation: Any, splits: Mapping[str, Dataset], last: bool) -> None:
    """Raises ValueError where a metric is to judge fewer rows than it needs: during training, or at the end of the last stage."""
    judged = {name: len(splits[name]) for name in ("valid", "test") if last and name in splits}
    if evaluation.every and evaluation.split in splits:
        there = len(splits[evaluation.split])
        judged["evaluate.max_examples"] = min(there, evaluation.max_examples or there)
    for metric in evaluation.metrics:
        for name, rows in judged.items():
            if rows < metric.min_examples:
                has = f"is {rows}" if name == "evaluate.max_examples" else f"has {rows}"
                raise ValueError(
                    f"the metric {name_of(type(metric))} compares rows, at least {metric.min_examples}, but {name} {has}"
                )


def check_metrics(evaluation: Any, model: Any) -> None:
    """Raises ValueError where a metric looks for something that the structure has not."""
    for metric in evaluation.metrics:
        if missing := [need.__name__ for need in metric.needs if need not in model.provides()]:
            has = ", ".join(p.__name__ for p in model.provides()) or "nothing"
            raise ValueError(
                f"the metric {name_of(type(metric))} needs a structure that {' and '.join(missing)}, but it has: {has}"
            )


def _name(factory: Any, built: Any) -> str:
    return name_of(factory) if base_of(factory) is not None else type(built).__name__


def _refuse(factory: Any, text: str) -> RecipeError:
    where, path = (factory.where, factory.path) if isinstance(factory, Part) else ("", "")
    return RecipeError([Problem(where, path, text)])


def choose_device(name: str) -> torch.device:
    """``auto`` is the best there is. Raises ValueError for one that is not there."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(n for n in ("cuda", "mps", "cpu") if there[n])
    if not there[name]:
        raise ValueError(f"device: {name} is not available here (there is: {', '.join(n for n in there if there[n])})")
    return torch.device(name)
