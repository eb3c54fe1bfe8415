"""TensorBoard event files, in addition to log.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.core.files import make_folder


class TensorBoard:
    """Writes every numeric value of the log as a scalar into ``tensorboard/`` of a run folder. Requires the extra ``track``.

    Args:
        folder: Run folder.
        step: Step that a resumed run continues from: later values are overwritten.
    """

    def __init__(self, folder: Path, step: int | None = None):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "TensorBoard files need the package tensorboard; install it with: pip install 'weft[track]'"
            ) from None
        make_folder(folder / "tensorboard")
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a log entry; metrics of evaluations get the prefix ``valid/``."""
        prefix = f"stage-{row['stage']}/" if row.get("stage") else ""
        metric_values = {f"valid/{name}": value for name, value in row.get("valid", {}).items()} or row
        for name, value in metric_values.items():
            if isinstance(value, float | int) and name not in ("step", "stage"):
                self.writer.add_scalar(prefix + name, value, row["step"])

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()
