"""``Run``: the specification of a training run by its four parts. The same from Python and from YAML."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.core.contracts import Data, Learning, Objective, Structure
from weft.core.options import Natural
from weft.core.registry import Build, base_of, name_of
from weft.evaluate import Evaluation
from weft.recipe import Node, RecipeParser, dump_options, from_plain, to_yaml
from weft.training.build import plans
from weft.training.catalog import fill_catalog
from weft.training.run_folder import next_folder
from weft.training.stages import Stage

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun
    from weft.inspect.architecture import StageNetwork
    from weft.training.tracking import TrackerName

fill_catalog()

_OPTIONS = ("seed", "device", "precision", "data", "structure", "objective", "learning", "evaluate", "stages", "format")


class Run:
    """Specification of a training run: data, structure, objective and learning. Each part is exchangeable on its own.

    Args:
        seed: Seed of all random number generators.
        device: Device to train on; ``auto`` selects cuda, mps or cpu, in this order.
        precision: Data type of the forward and backward pass; the weights stay in fp32.
        data: Dataset and its tokenizers; a mapping of names to datasets, of which each phase of the learning names one.
        structure: Model architecture.
        objective: Training objective; a mapping of names to objectives for training in phases.
        learning: Optimizer, schedule, batch size and number of steps.
        evaluate: Metrics, and when to compute them.
        stages: Stages that follow, each of which replaces some of the four parts.
        format: Version of the recipe format.

    Example:
        >>> from functools import partial
        >>> from weft import data, learning, models, objectives
        >>> run = Run(
        ...     data=partial(data.Dates, train=100),
        ...     structure=models.Seq2Seq,
        ...     objective=objectives.NextToken,
        ...     learning=partial(learning.Gradient, steps=10),
        ... )
        >>> run.dump()["learning"]["steps"]
        10
    """

    def __init__(
        self,
        *,
        seed: Natural = 1,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["fp32", "bf16"] = "fp32",
        data: Build[Data] | dict[str, Build[Data]],
        structure: Build[Structure],
        objective: Build[Objective] | dict[str, Build[Objective]],
        learning: Build[Learning],
        evaluate: Build[Evaluation] = Evaluation,
        stages: list[Build[Stage]] | None = None,
        format: Literal[1] = 1,
    ):
        self.seed, self.device, self.precision, self.format = seed, device, precision, format
        self.data, self.structure, self.objective, self.learning = data, structure, objective, learning
        self.evaluate, self.stages = evaluate, stages
        self.name = name_of(structure) if base_of(structure) is not None else "run"
        """Name of the recipe; of a run composed in Python, that of its structure. Default folders are ``runs/<name>-<n>``."""
        self.copies: dict[str, str] = {}
        """References in the recipe: path of each ``${...}`` -> path of the node it copies."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("model", "codec", "generate", "predict", "errors"):
                raise AttributeError(
                    f"Run has no attribute {name!r}: it is a specification and is not trained yet. "
                    "Train it with trained = run.train(folder), or open a trained one with weft.load(folder)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def from_tree(cls, root: Node, folder: Path = Path(), *, files: bool = True) -> Run:
        """Build a run from a parsed recipe. Raises RecipeError with every problem.

        Args:
            root: Tree of the recipe, with references resolved.
            folder: Folder that relative paths start from.
            files: Whether the files that the recipe names must exist.
        """
        run: Run = RecipeParser(folder, files).root(cls, root)()
        run.copies = root.copies
        return run

    def dump(self, *, hashes: bool = False) -> dict[str, Any]:
        """Return the full recipe as plain dicts and lists, with every default. ``hashes`` adds the SHA-256 of each file."""
        filled = dump_options(functools.partial(Run, **{name: getattr(self, name) for name in _OPTIONS}), hashes=hashes)
        return {"format": filled.pop("format"), **filled}

    def to_yaml(self) -> str:
        """Return the recipe as YAML that parses back to exactly this run."""
        return to_yaml(self.dump())

    def checked(self) -> Run:
        """Return this run parsed from its own recipe: every option validated, every part with its path for error messages."""
        run = Run.from_tree(from_plain(self.dump(), ""))
        run.name = self.name
        return run

    def evaluation(self) -> Evaluation:
        """Build the evaluation of the last stage."""
        return plans(self)[-1].evaluation()

    def networks(self) -> list[StageNetwork]:
        """Build model and objectives of every stage, without reading data. ``weft.inspect.architecture(run)`` draws them."""
        from weft.training.stage_networks import stage_networks

        return stage_networks(self)

    def __repr__(self) -> str:
        from weft.training.run_html import parts_of

        return f"<Run {self.name}: {', '.join(parts_of(self))}>"

    def _repr_html_(self) -> str:
        from weft.training.run_html import run_html

        return run_html(self)

    def train(
        self,
        folder: str | Path | None = None,
        *,
        resume: bool = False,
        quiet: bool = False,
        keep: bool = False,
        track: TrackerName | None = None,
        on_step: Callable[[int, dict[str, Any]], object] | None = None,
        on_evaluate: Callable[[int, dict[str, float]], object] | None = None,
        on_save: Callable[[int, Path], object] | None = None,
    ) -> TrainedRun:
        """Train, and return the trained run; its ``result`` is the final evaluation.

        Args:
            folder: Run folder to write; None = the next free ``runs/<name>-<n>``.
            resume: Whether to continue from the last checkpoint in the folder.
            quiet: Whether to show no progress.
            keep: Whether to keep the checkpoints when the run is finished: to resume it later with more steps.
            track: Experiment tracker that receives the log too: ``tensorboard``, ``wandb`` or ``mlflow``.
            on_step: Called with the step and its values (loss, learning rate, ...) every ``learning.log_every`` steps.
            on_evaluate: Called with the step and the metrics after an evaluation during training.
            on_save: Called with the step and the folder of the checkpoint after it was saved. An exception of these functions
                ends the run with a CallbackError; it can be resumed from the last checkpoint.
        """
        from weft.training.callbacks import UserCallbacks
        from weft.training.display import Display, Terminal
        from weft.training.trainer import train

        path = Path(folder) if folder is not None else next_folder(self.name)
        user = UserCallbacks(on_step, on_evaluate, on_save)
        display = Display() if quiet else Terminal()
        return train(self.checked(), path, resume=resume, keep=keep, track=track, user=user, display=display)
