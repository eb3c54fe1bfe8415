"""The text that an answer is about."""

from __future__ import annotations

import numpy as np

from weft.batch import Example, Info, Marked, between


class Given:
    """One text with its end mark; or two of a pair as one sequence, with a separator between them: first <sep> second <eos>."""

    def __init__(self, info: Info):
        self.fields = info.given()
        self.special = self.fields[0].special

    def __call__(self, example: Example) -> np.ndarray | Marked:
        whole = between([], example[self.fields[-1].name], [self.special.eos])
        for field in reversed(self.fields[:-1]):
            whole = _join(between([], example[field.name], [self.special.sep]), whole)
        return whole


def _join(one: np.ndarray | Marked, two: np.ndarray | Marked) -> np.ndarray | Marked:
    if not isinstance(one, Marked) or not isinstance(two, Marked):
        return np.concatenate([one, two])  # pyright: ignore[reportArgumentType, reportCallIssue]
    marks: dict[str, np.ndarray] = {}
    for name in one.marks:
        width = max(one.marks[name].shape[-1], two.marks[name].shape[-1])
        pads = [np.pad(m.marks[name], ((0, 0), (0, width - m.marks[name].shape[-1]))) for m in (one, two)]
        marks[name] = np.concatenate(pads)
    return Marked(np.concatenate([one.ids, two.ids]), marks)
