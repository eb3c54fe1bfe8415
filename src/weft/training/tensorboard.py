"""TensorBoard event files, in addition to log.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        """Add a log entry."""
        for name, value in scalars(row):
            self.writer.add_scalar(name, value, row["step"])

    def resume(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the event files anew. ``purge_step`` would not do: it drops later steps of all stages, whose steps overlap."""
        self.writer.close()
        for file in Path(self.writer.log_dir).glob("events.out.tfevents.*"):
            remove(file)
        self.writer = type(self.writer)(self.writer.log_dir)
        for row in rows:
            self.add(row)

    def close(self) -> None:
        """Flush and close the event file."""
        self.writer.close()


def scalars(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numeric values of a log entry by name: ``valid/`` before those of an evaluation, the stage before all."""
    prefix = f"stage-{row['stage']}/" if row.get("stage") else ""
    metric_values = {f"valid/{name}": value for name, value in row.get("valid", {}).items()} or row
    for name, value in metric_values.items():
        if isinstance(value, float | int) and name not in ("step", "stage"):
            yield prefix + name, value
