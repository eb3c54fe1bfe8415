"""Class labels of a run with a latent space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.fields import ClassField
from weft.inference.trained_run import TrainedRun
from weft.recipe import nearest

Labels = str | Sequence[str] | None
"""Target classes: one for all texts, one per text, or None."""


class ClassLabels:
    """The classes of a run, and which operations condition on them: decoding (style transfer), sampling, or none.

    Args:
        run: A trained run whose structure has the protocol ``Latent``.
    """

    def __init__(self, run: TrainedRun):
        self.run = run
        self.model: Any = run.model
        info = run.codec.info
        self.names: tuple[str, ...] = info.expect("label", ClassField).labels if "label" in info else ()

    @property
    def class_conditional(self) -> bool:
        """Whether the decoder conditions on the class, so that style transfer is possible."""
        return bool(self.model.class_conditional)

    @property
    def samples_by_label(self) -> bool:
        """Whether texts of a class can be sampled."""
        return bool(self.model.class_conditional or self.model.samples_by_label)

    def resolve(self, samples: int, label: Labels = None) -> Labels:
        """Return the classes to sample: those given, or all classes in turn if the model is class-conditional."""
        if not self.samples_by_label:
            if label is not None:
                raise ValueError(f"{self._owner} is not class-conditional, so label must be None; {self._alternative()}")
            return None
        if label is None:
            return [self.names[row % len(self.names)] for row in range(samples)]
        for name in [label] if isinstance(label, str) else label:
            self.index(name)
        return label

    def check(self, label: Labels) -> None:
        """Raise ValueError unless a known class is given exactly where the decoder conditions on one."""
        if label is None and self.class_conditional:
            raise ValueError(
                f"{self._owner} is class-conditional, but no label was given; choose {_either(self.names)} "
                f"(on the command line: --label {self.names[0]})"
            )
        if label is not None and not self.class_conditional:
            raise ValueError(f"the decoder of {self._owner} does not condition on a class; {self._alternative(label)}")
        for name in [label] if isinstance(label, str) else label or ():
            self.index(name)

    def check_transfer(self, label: Labels) -> None:
        """Raise ValueError if the run does not support style transfer to this class."""
        if not self.class_conditional:
            raise ValueError(f"{self._owner} does not support style transfer; {self._alternative(label)}")
        if label is None:
            raise ValueError(f"style transfer needs a target class; choose {_either(self.names)}")
        self.check(label)

    def index(self, name: str) -> int:
        """Return the index of a class."""
        if name not in self.names:
            raise ValueError(
                f"{self._owner} has no class {name!r}{nearest(name, self.names)} (available: {', '.join(self.names) or 'none'})"
            )
        return self.names.index(name)

    def indices(self, label: Labels, rows: int) -> Tensor | None:
        """Return one class index per row; None without classes."""
        if label is None:
            return None
        names = [label] * rows if isinstance(label, str) else label
        if len(names) != rows:
            raise ValueError(f"{len(names)} labels for {rows} texts; give one for all, or one per text")
        return torch.tensor([self.index(name) for name in names], dtype=torch.long)

    @property
    def _owner(self) -> str:
        return f"{self.run.folder or 'this run'} ({type(self.model).__name__})"

    def _alternative(self, label: Labels = None) -> str:
        """What the run supports instead of decoding with a class."""
        name = label if isinstance(label, str) and label in self.names else next(iter(self.names), "")
        sampling = f"sample texts of a class with weft latent RUN sample --label {name}, or " if self.samples_by_label else ""
        return f"{sampling}move texts along an attribute vector with steer (weft latent RUN steer --target FILE --source FILE)"


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))
