"""The log for TensorBoard, beside log.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Writes every number of the log as a curve into ``tensorboard/`` of a run's folder. Needs the extra ``track``.

    Args:
        folder: The run's folder.
        round_: Where a resumed run goes on: curves after that are drawn again.
    """

    def __init__(self, folder: Path, round_: int | None = None):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("TensorBoard's files need the package tensorboard: pip install 'weft[track]'") from None
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=round_)

    def add(self, row: Mapping[str, Any]) -> None:
        """One row of the log: updates as they are, evaluations under ``valid/``."""
        prefix = f"stage-{row['stage']}/" if row.get("stage") else ""
        metric_values = {f"valid/{name}": value for name, value in row.get("valid", {}).items()} or row
        for name, value in metric_values.items():
            if isinstance(value, float | int) and name not in ("round", "stage"):
                self.writer.add_scalar(prefix + name, value, row["round"])

    def close(self) -> None:
        self.writer.close()
