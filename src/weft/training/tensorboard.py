"""TensorBoard event files, in addition to log.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.core.files import make_folder, remove


class TensorBoard:
    """Writes every numeric value of the log as a scalar into ``tensorboard/`` of a run folder. Requires the extra ``track``.

    Args:
        folder: Run folder.
    """

    def __init__(self, folder: Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "TensorBoard files need the package tensorboard; install it with: pip install 'weft[track]'"
            ) from None
        make_folder(folder / "tensorboard")
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a log entry; metrics of evaluations get the prefix ``valid/``."""
        prefix = f"stage-{row['stage']}/" if row.get("stage") else ""
        metric_values = {f"valid/{name}": value for name, value in row.get("valid", {}).items()} or row
        for name, value in metric_values.items():
            if isinstance(value, float | int) and name not in ("step", "stage"):
                self.writer.add_scalar(prefix + name, value, row["step"])

    def clear(self) -> None:
        """Remove all event files. ``purge_step`` would not do: it drops later steps of all stages, whose steps overlap."""
        self.writer.close()
        for file in Path(self.writer.log_dir).glob("events.out.tfevents.*"):
            remove(file)
        self.writer = type(self.writer)(self.writer.log_dir)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()
