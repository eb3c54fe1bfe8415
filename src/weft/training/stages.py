"""A stage: training goes on with some of the parts replaced, from the weights of the stage before."""

from __future__ import annotations

import re

from weft.core.contracts import Data, Learning, Objective, Structure
from weft.core.registry import Build, block, slot
from weft.evaluate import Evaluation


@block("stage")
@slot
class Stage:
    """Replace any of the four parts and go on from the weights so far.

    Where new data describes the tokenizer of an id space in the same words as the data before, it is the same tokenizer: it is
    not trained again, and ids mean what they meant.

    Pre-train and fine-tune: Howard & Ruder 2018, https://arxiv.org/abs/1801.06146

    Args:
        name: What the log and the checkpoints call it.
        learning: How the weights move in this stage.
        structure: A new structure; none = as before.
        data: New data; none = as before.
        objective: A new objective; none = as before.
        evaluate: How this stage is judged; none = as before.
        start: Which weights are taken from the stage before: globs of new names to globs of old ones, with ``*`` standing
            for the same text on both sides.

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
        data: Build[Data] | None = None,
        objective: Build[Objective] | dict[str, Build[Objective]] | None = None,
        evaluate: Build[Evaluation] | None = None,
        start: dict[str, str] = {"*": "*"},
    ):
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ValueError(f"the name of a stage is letters, digits, -, _ and ., as it names files; not {name!r}")
        self.name, self.learning, self.structure, self.data, self.objective = name, learning, structure, data, objective
        self.evaluate, self.start = evaluate, start
