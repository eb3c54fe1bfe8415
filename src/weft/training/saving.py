"""Which checkpoints of a stage are kept, which one training resumes from, and which become the final weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from weft.core.io import read_json
from weft.learning import Checkpoint, Checkpoints, Progress, average, load_checkpoint
from weft.training.display import Display
from weft.training.run_folder import FolderError, RunFolder


class CheckpointPolicy:
    """Checkpoints of one stage.

    Args:
        folder: Folder of the run; its log records every save.
        path: Folder of the stage's checkpoints.
        learning: Options ``save_every``, ``keep``, ``average`` and ``final``.
        stage: Index of the stage.
        display: Where damaged checkpoints are reported.
    """

    def __init__(self, folder: RunFolder, path: Path, learning: Any, stage: int, display: Display):
        self.folder, self.learning, self.stage, self.display = folder, learning, stage, display
        self.checkpoints = Checkpoints(path, keep=learning.keep)

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None:
        """Save a checkpoint, and remove those that are no longer kept."""
        about = {"stage": self.stage, "step": progress.step}
        self.folder.write_log({"event": "saving", **about})
        extra = [path for path in self._paths() if self._is_extra(path)]
        self.checkpoints.keep = self.learning.keep + len(extra) + (not self._is_planned(progress))
        self.checkpoints.save(progress.step, tensors, documents, best=progress.best_step == progress.step)
        for path in extra:
            if (step := int(path.name.removeprefix("step-"))) < progress.step:
                self.checkpoints.remove(step)
        self.folder.write_log({"event": "saved", **about})

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
        if checkpoint.documents["state.json"]["progress"]["best_step"] == checkpoint.step:
            self.checkpoints.mark_best(checkpoint.step)  # the process may have been killed just before it could
        self.folder.truncate_log(self.stage, checkpoint.step)
        self.folder.write_log({"event": "resumed", "stage": self.stage, "step": checkpoint.step})
        self.display.message(f"resuming from {latest.path}")
        return checkpoint.tensors, checkpoint.documents

    def chosen_weights(self, progress: Progress) -> dict[str, Tensor] | None:
        """Return the mean of the last checkpoints (``average``) or the best one (``final: best``); None = the last weights."""
        if self.learning.average:
            return average([c.tensors["model.safetensors"] for c in self._last(self.learning.average, progress)])
        if self.learning.final == "best" and (best := self.checkpoints.best()):
            return load_checkpoint(best).tensors["model.safetensors"]
        return None

    def _last(self, number: int, progress: Progress) -> list[Checkpoint]:
        """Return the last planned checkpoints: ``number`` of them, or as many as a short run has."""
        paths = [path for path in self._paths() if not self._is_extra(path)][-number:]
        every = self.learning.save_every or self.learning.steps
        planned = min(number, 1 - (-progress.step // every))
        try:
            if len(paths) < planned:
                raise FolderError(f"found {len(paths)} of {planned}")
            return [load_checkpoint(path) for path in paths]
        except ValueError as error:
            raise FolderError(
                f"cannot average the last {number} checkpoints: {error}. "
                f"The last weights are intact in {paths[-1]}; to average, start a new run"
            ) from None

    def _paths(self) -> list[Path]:
        return sorted(self.checkpoints.folder.glob("step-*[0-9]"))

    def _is_planned(self, progress: Progress) -> bool:
        """Return whether a run without interruption would be saved at this step."""
        every, now = self.learning.save_every, progress.step
        planned = now in (0, self.learning.steps, progress.best_step) or progress.stopped
        return planned or bool(every and now % every == 0)

    def _is_extra(self, path: Path) -> bool:
        """Return whether a checkpoint exists only because the run was stopped: it must not displace others, nor be averaged."""
        try:
            return not self._is_planned(Progress(**read_json(path / "state.json")["progress"]))
        except (OSError, ValueError, KeyError, TypeError):  # damaged: reported by whoever loads it
            return False
