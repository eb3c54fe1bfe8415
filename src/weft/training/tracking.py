"""Experiment trackers beside log.jsonl: TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from weft.core.io import read_json, write_json
from weft.training.tensorboard import TensorBoard, scalars

TrackerName = Literal["tensorboard", "wandb", "mlflow"]
_RUN_ID = "tracking.json"
"""File of a run folder with the id of its run in each tracker, which a resumed run continues."""
_MAX_BYTES = 10_000


class Tracker(Protocol):
    """Receives every log entry of a run."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a log entry of training or of an evaluation."""
        ...

    def resume(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Called when a run resumes, with the log up to its checkpoint: later steps are added again."""
        ...

    def close(self) -> None:
        """Write what is buffered."""
        ...


class WandB:
    """Logs to Weights & Biases. Its settings apply, such as WANDB_PROJECT, and WANDB_MODE=offline without a network.

    Args:
        folder: Run folder; its name is that of the run.
        config: The recipe.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        wandb = _import("wandb", "Weights & Biases")
        stored = _stored_id(folder, "wandb")
        self.run = wandb.init(name=folder.name, dir=str(folder), config=dict(config), id=stored, resume="allow")
        _store_id(folder, "wandb", self.run.id)

    def add(self, row: Mapping[str, Any]) -> None:
        self.run.log(dict(scalars(row)), step=row["step"])

    def resume(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Weights & Biases ignores steps that it has."""

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """Logs to MLflow. Its settings apply, such as MLFLOW_TRACKING_URI, which may be a local folder or database.

    Args:
        folder: Run folder; its name is that of the run.
        config: The recipe; its options are the parameters of the run.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        self.mlflow = _import("mlflow", "MLflow")
        stored = _stored_id(folder, "mlflow")
        run = self.mlflow.start_run(run_id=stored, run_name=None if stored else folder.name)
        self.id = run.info.run_id
        if not stored:
            self.mlflow.log_params({name: str(value)[:500] for name, value in _flat(config)})
        _store_id(folder, "mlflow", self.id)

    def add(self, row: Mapping[str, Any]) -> None:
        self.mlflow.log_metrics(dict(scalars(row)), step=row["step"], run_id=self.id)

    def resume(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """A step that is computed again has the same values."""

    def close(self) -> None:
        self.mlflow.end_run()


_TRACKERS: dict[TrackerName, Callable[[Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": lambda folder, config: TensorBoard(folder),
    "wandb": WandB,
    "mlflow": MLflow,
}


def open_tracker(name: TrackerName, folder: Path, config: Mapping[str, Any]) -> Tracker:
    """Open an experiment tracker for a run folder. Raises ValueError for an unknown one, or if its package is missing."""
    if name not in _TRACKERS:
        raise ValueError(f"unknown tracker {name!r}; choose one of: {', '.join(get_args(TrackerName))}")
    return _TRACKERS[name](folder, config)


def _import(package: str, title: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        install = f"pip install 'weft[{package}]'"
        raise ValueError(f"tracking with {title} needs the package {package}; install it with: {install}") from None


def _stored_id(folder: Path, tracker: str) -> str | None:
    file = folder / _RUN_ID
    if not file.is_file() or file.stat().st_size > _MAX_BYTES:
        return None
    stored = read_json(file)
    found = stored.get(tracker) if isinstance(stored, dict) else None
    return found if isinstance(found, str) else None


def _store_id(folder: Path, tracker: str, identifier: str) -> None:
    write_json(folder / _RUN_ID, {"format": 1, tracker: identifier})


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
