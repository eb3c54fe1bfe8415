"""Which checkpoints of a stage are kept, which one training resumes from, and which become the final weights."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.core.io import read_json
from weft.learning import Checkpoint, Checkpoints, Progress, average, load_checkpoint
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder

RECORD = "run.json"
"""Document of a checkpoint: the recipe that was trained, and the hashes of vocabularies and labels."""


class CheckpointPolicy:
    """Checkpoints of one stage.

    Args:
        folder: Folder of the run; its log records every save.
        path: Folder of the stage's checkpoints.
        learning: Options ``save_every``, ``keep``, ``average`` and ``final``.
        stage: Index of the stage.
        display: Where damaged checkpoints are reported.
        record: What is trained: the recipe, and the hashes of vocabularies and labels. Saved with every checkpoint.
    """

    def __init__(
        self, folder: RunFolder, path: Path, learning: Any, stage: int, display: Display, record: dict[str, Any] | None = None
    ):
        self.folder, self.learning, self.stage, self.display = folder, learning, stage, display
        self.record = record or {}
        self.checkpoints = Checkpoints(path, keep=learning.keep)
        self.remarks: list[str] = []
        """What the user must know about the final weights, for metrics.json."""

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> Path:
        """Save a checkpoint, and remove those that are no longer kept. Returns its folder."""
        about = {"stage": self.stage, "step": progress.step}
        self.folder.write_log({"event": "saving", **about})
        self._mark_best(progress)
        extra = [path for path in self._paths() if self._is_extra(path)]
        self.checkpoints.keep = self.learning.keep + len(extra) + (not self._is_planned(progress))
        documents = {**documents, RECORD: self.record}
        path = self.checkpoints.save(progress.step, tensors, documents, best=progress.best_step == progress.step)
        for old in extra:
            if (step := int(old.name.removeprefix("step-"))) < progress.step:
                self.checkpoints.remove(step)
        self.folder.write_log({"event": "saved", **about})
        return path

    def can_resume(self) -> bool:
        """Return whether there is a checkpoint to resume from. Raises FolderError where all of them are damaged."""
        latest = self.checkpoints.latest()
        if latest.path is None and latest.damaged:
            found = "; ".join(f"{path.name}: {', '.join(reasons)}" for path, reasons in latest.damaged.items())
            raise FolderError(f"no intact checkpoint is left in {self.checkpoints.folder} ({found}); start a new run")
        return latest.path is not None

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Return tensors and documents of the latest intact checkpoint, and remove later steps from the log."""
        latest = self.checkpoints.latest()
        for path, reasons in latest.damaged.items():
            self.display.message(f"warning: the checkpoint {path} is damaged ({'; '.join(reasons)}); an earlier one is used")
        if latest.path is None:
            raise FolderError(f"no intact checkpoint is left in {self.checkpoints.folder}; start a new run")
        checkpoint = load_checkpoint(latest.path)
        self._mark_best(Progress(**checkpoint.documents["state.json"]["progress"]))
        self.folder.truncate_log(self.stage, checkpoint.step)
        self.folder.write_log({"event": "resumed", "stage": self.stage, "step": checkpoint.step})
        self.display.message(f"resuming from {latest.path}")
        return checkpoint.tensors, checkpoint.documents

    def chosen_weights(self, progress: Progress) -> dict[str, Tensor] | None:
        """Return the mean of the last checkpoints (``average``) or the best one (``final: best``); None = the last weights.

        Raises FolderError where they are missing or damaged; the message names the way to finish with the last weights.
        """
        if self.learning.average:
            return average([c.tensors["model.safetensors"] for c in self._last(self.learning.average, progress)])
        if self.learning.final != "best":
            return None
        if progress.best_step is None:
            self.remarks.append(
                "final: best: no evaluation in training, or none with a finite score; the weights are the last ones"
            )
            return None
        try:
            return load_checkpoint(self._path_of(progress.best_step)).tensors["model.safetensors"]
        except ValueError as error:
            raise FolderError(
                f"the weights of the best evaluation cannot be used: {error}. {self._way_out('final=last')}"
            ) from None

    def _path_of(self, step: int) -> Path:
        return self.checkpoints.folder / f"step-{step:08d}"

    def _way_out(self, assignment: str) -> str:
        prefix = f"stages.{self.stage - 1}." if self.stage else ""
        return (
            "The last weights are intact: restore the checkpoint from a copy, or finish with the last weights: "
            f"weft train {self.folder.path} --resume {prefix}learning.{assignment}"
        )

    def _mark_best(self, progress: Progress) -> None:
        """Mark the best checkpoint so far where the mark is missing, damaged or not up to date: a marked one is never removed."""
        step = progress.best_step
        if step is None or (step == progress.step and not self._path_of(step).exists()):
            return
        with contextlib.suppress(ValueError):
            if (marked := self.checkpoints.best()) is not None and marked.name == self._path_of(step).name:
                return
        self.checkpoints.mark_best(step)

    def _last(self, number: int, progress: Progress) -> list[Checkpoint]:
        """Return the last planned checkpoints: ``number`` of them, or as many as a short run has."""
        paths = [path for path in self._paths() if not self._is_extra(path)][-number:]
        every = self.learning.save_every or self.learning.total_steps or max(1, progress.step)
        planned = min(number, 1 - (-progress.step // every))
        try:
            if len(paths) < planned:
                raise FolderError(f"found {len(paths)} of {planned}")
            return [load_checkpoint(path) for path in paths]
        except ValueError as error:
            raise FolderError(f"cannot average the last {number} checkpoints: {error}. {self._way_out('average=0')}") from None

    def _paths(self) -> list[Path]:
        return sorted(self.checkpoints.folder.glob("step-*[0-9]"))

    def _is_planned(self, progress: Progress) -> bool:
        """Return whether a run without interruption would be saved at this step."""
        every, now = self.learning.save_every, progress.step
        planned = now in (0, self.learning.total_steps, progress.best_step) or progress.stopped
        return planned or bool(every and now % every == 0)

    def _is_extra(self, path: Path) -> bool:
        """Return whether a checkpoint exists only because the run was stopped: it must not displace others, nor be averaged."""
        try:
            return not self._is_planned(Progress(**read_json(path / "state.json")["progress"]))
        except (OSError, ValueError, KeyError, TypeError):  # damaged: reported by whoever loads it
            return False
