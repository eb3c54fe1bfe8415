"""Callbacks of the training loop of a stage: logging, evaluation, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core.html import show_number
from weft.data import Feed
from weft.evaluate import Evaluation
from weft.evaluate.parts import EvaluationPart, evaluate_parts
from weft.learning import Progress, TrainingLoop
from weft.learning.network import Network
from weft.training.display import Display
from weft.training.interrupt import StopRequest
from weft.training.resources import ResourceMeter
from weft.training.run_folder import RunFolder
from weft.training.saving import CheckpointPolicy
from weft.training.tracking import Tracker


class RunLog:
    """log.jsonl of a run, and an experiment tracker where requested.

    Args:
        folder: Folder of the run.
    """

    def __init__(self, folder: RunFolder):
        self.folder = folder
        self.tracker: Tracker | None = None

    def write(self, row: dict[str, Any]) -> None:
        """Append an entry to the log."""
        self.folder.write_log(row)
        if self.tracker is not None and _is_tracked(row):
            self.tracker.add(row)

    def resume_tracker(self) -> None:
        """Tell the tracker about the log, which a resumed run has truncated at its checkpoint."""
        if self.tracker is not None:
            self.tracker.resume(filter(_is_tracked, self.folder.read_log()))

    def close(self) -> None:
        """Close the tracker."""
        if self.tracker is not None:
            self.tracker.close()


def _is_tracked(row: Mapping[str, Any]) -> bool:
    """Return whether a log entry has values: those of events and problems are not tracked."""
    return "problem" not in row and row.get("event", "train") in ("train", "valid")


class CallbackError(RuntimeError):
    """A callback of the user has raised an exception."""


@dataclass(frozen=True)
class UserCallbacks:
    """Functions that are called during training, in the first process.

    Args:
        on_step: Called with the step and its values (loss, learning rate, ...) at every log entry (``learning.log_every``).
        on_evaluate: Called with the step and the metrics after an evaluation during training.
        on_save: Called with the step and the folder of the checkpoint after it was saved.
    """

    on_step: Callable[[int, dict[str, Any]], object] | None = None
    on_evaluate: Callable[[int, dict[str, float]], object] | None = None
    on_save: Callable[[int, Path], object] | None = None

    def call(self, name: str, step: int, value: Any) -> None:
        """Call one of the functions. Raises CallbackError from its exception, which ends the run; it can be resumed."""
        function = getattr(self, name)
        if function is None:
            return
        try:
            function(step, value)
        except Exception as error:
            raise CallbackError(
                f"the callback {name} raised {type(error).__name__} at step {step:,}: {error}. The last checkpoint is intact; "
                "fix the callback, then resume: run.train(folder, resume=True)"
            ) from error


class StageCallbacks:
    """Callbacks of the training loop for one stage.

    Args:
        seed: Seed of the run.
        stage: Index of the stage.
        network: Model and objectives.
        parts: What is evaluated, by name.
        evaluation: When to evaluate, and what early stopping depends on.
        policy: Checkpoints.
        log: Where updates and evaluations are written.
        display: Progress display.
        meter: Measures the resources used.
        stop: Stop requests by signals.
        feeds: Feeds of the run; the last one's padding is shown.
        device: Device of the model.
        user: Functions of the user.
    """

    loop: TrainingLoop
    """The loop that calls."""
    steps_per_epoch = 1.0
    """Steps per epoch of the loop, for evaluations every n epochs."""

    def __init__(
        self,
        *,
        seed: int,
        stage: int,
        network: Network,
        parts: Mapping[str, EvaluationPart],
        evaluation: Evaluation,
        policy: CheckpointPolicy,
        log: RunLog,
        display: Display,
        meter: ResourceMeter,
        stop: StopRequest,
        feeds: list[Feed],
        device: torch.device,
        user: UserCallbacks = UserCallbacks(),
    ):
        self.seed, self.stage, self.network, self.parts, self.evaluation = seed, stage, network, parts, evaluation
        self.policy, self.user = policy, user
        self.log, self.display, self.meter, self.stop, self.feeds, self.device = log, display, meter, stop, feeds, device
        self.saved = False
        """Whether a checkpoint was written."""
        self.higher_is_better: bool | None = None
        """Direction of the monitored value; None before the first evaluation."""

    def on_log(self, row: dict[str, Any]) -> None:
        """Write a log entry, measure resources and update the display."""
        row = {"stage": self.stage, **row}
        self.log.write(row)
        self.meter.sample()
        self.display.update(row, self.feeds[-1].padding.ratio if self.feeds else 0.0)
        self.user.call("on_step", row["step"], row)

    def should_evaluate(self, progress: Progress, last: bool) -> bool:
        """Return whether to evaluate after this step (``evaluate.every``)."""
        every = self.evaluation.steps_between(self.steps_per_epoch)
        return (
            bool(every)
            and progress.step % every == 0
            and any(self.evaluation.split in part.splits for part in self.parts.values())
        )

    def evaluate(self, progress: Progress, last: bool) -> float | None:
        """Evaluate, and log and show the metrics. Returns the score of the monitored value, higher is better."""
        split = self.evaluation.split
        result = evaluate_parts(
            self.parts,
            split,
            self.network.model,
            self.device,
            self.evaluation.max_examples,
            last=False,
            key=(self.seed, self.stage, progress.step, split),
        )
        remarks = {"remarks": result.remarks} if result.remarks else {}
        self.log.write({"event": "valid", "stage": self.stage, "step": progress.step, "valid": result.metric_values, **remarks})
        self.display.show_evaluation(progress.step, result.metric_values, result.remarks)
        self.user.call("on_evaluate", progress.step, result.metric_values)
        score = self.evaluation.score(result)
        self.higher_is_better = result.higher_is_better[self.evaluation.monitor]
        return score

    def report_early_stop(self, progress: Progress, patience: int) -> None:
        """Log and show that early stopping has ended training. An earlier session has reported its own stop."""
        if self.higher_is_better is None:
            return
        best = progress.best if progress.best is None or self.higher_is_better else -progress.best
        monitor, stale = self.evaluation.monitor, progress.stale
        row = {"event": "stopped", "stage": self.stage, "step": progress.step, "monitor": monitor, "patience": patience}
        self.log.folder.write_log({**row, "best": best, "best_step": progress.best_step})
        found = "it was never finite" if best is None else f"best {show_number(best)} at step {progress.best_step:,}"
        self.display.message(
            f"early stopping at step {progress.step:,}: {monitor} has not improved in {stale} evaluations "
            f"(patience {patience}); {found}"
        )

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None:
        """Save a checkpoint."""
        self.saved = True
        path = self.policy.save(tensors, documents, progress)
        self.user.call("on_save", progress.step, path)

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Return tensors and documents of the latest intact checkpoint; later values are removed from the log."""
        found = self.policy.restore()
        self.log.resume_tracker()
        return found

    def should_stop(self) -> bool:
        """Return whether a signal has requested to stop."""
        return self.stop.requested
