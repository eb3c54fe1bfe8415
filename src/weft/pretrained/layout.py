"""Layouts: how a published model is stored. Each gives a config.json and tensors under the names of the Hugging Face layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor


class ModelLayout(ABC):
    """A published model on disk.

    Args:
        path: Its folder or file.
    """

    def __init__(self, path: Path):
        self.path = path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return self.read_config()

    @abstractmethod
    def read_config(self) -> dict[str, Any]:
        """Read the content of config.json."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of its tensors."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Tensors in float32 by their names, in memory of their own."""

    @abstractmethod
    def document(self, name: str) -> Any:
        """A JSON file that belongs to the model, such as tokenizer_config.json; None where it has none."""

    @abstractmethod
    def write_companions(self, folder: Path) -> None:
        """Write what belongs to the model besides config.json and tensors (tokenizer, generation settings) into a folder."""
