"""A stage of training: continues from the weights of the previous stage with some of the four parts replaced."""

from __future__ import annotations

import re

from weft.core.contracts import Data, Learning, Objective, Structure
from weft.core.options import OptionError
from weft.core.registry import Build, block, slot
from weft.evaluate import Evaluation

MAX_NAME = 100
"""Bytes of a stage's name. File systems allow 255 for a file name, of which weft adds up to 50."""


@block("stage")
@slot
class Stage:
    """A further stage of training, such as fine-tuning after pre-training.

    Where new data configures the tokenizer of an id space as the previous data does, that tokenizer is kept: it is not trained
    again, and ids keep their meaning.

    Howard and Ruder 2018 (pre-training and fine-tuning), https://arxiv.org/abs/1801.06146

    Args:
        name: Name in the log and of the checkpoint folder.
        learning: Optimizer, schedule, batch size and number of steps.
        structure: Model architecture; None = that of the previous stage.
        data: Dataset; None = that of the previous stage.
        objective: Training objective; None = that of the previous stage.
        evaluate: Metrics; None = those of the previous stage.
        start: Weights to load from the previous stage: globs of parameter names of this stage -> globs of the previous one;
            ``*`` stands for the same text in both.

    Example:
        >>> from functools import partial
        >>> from weft.learning import Gradient
        >>> Stage(name="polish", learning=partial(Gradient, steps=10)).start
        {'*': '*'}
    """

    def __init__(
        self,
        *,
        name: str,
        learning: Build[Learning],
        structure: Build[Structure] | None = None,
        data: Build[Data] | dict[str, Build[Data]] | None = None,
        objective: Build[Objective] | dict[str, Build[Objective]] | None = None,
        evaluate: Build[Evaluation] | None = None,
        start: dict[str, str] = {"*": "*"},
    ):
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise OptionError(
                "name", f"the name of a stage may have letters, digits, -, _ and . only, because it is a file name; not {name!r}"
            )
        if len(name.encode()) > MAX_NAME:
            raise OptionError(
                "name",
                f"the name of a stage is part of file names and may have at most {MAX_NAME} bytes, not {len(name.encode())}: "
                f"{name[:20]!r}...",
            )
        self.name, self.learning, self.structure, self.data, self.objective = name, learning, structure, data, objective
        self.evaluate, self.start = evaluate, start
