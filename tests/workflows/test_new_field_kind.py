"""A plug-in brings a kind of field of its own: prepared, trained on, resumed and predicted from, without an edit in weft."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tests.commands import forked

PLUGIN = '''\
"""Signals: any number of floats per example, and the classes of signals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft import block
from weft.core.batch import Instance
from weft.core.contracts import Structure, protocol
from weft.core.example import Value
from weft.core.fields import Field, InvalidCell, LabelField, StoredColumn, field_kind
from weft.core.loss import Loss
from weft.core.contracts import Objective
from weft.core.options import Count, File
from weft.core.outputs import FieldPrediction
from weft.core.ragged_array import RaggedArray
from weft.data.holdout import HoldOut
from weft.data.sources.parsing import ColumnSpec, tables
from weft.data.sources.text_source import TextSource
from weft.data.sources.training_scan import TargetSpec
from weft.data import Character


@dataclass(frozen=True)
class SignalBatch:
    x_BT: Tensor
    length_B: Tensor

    def to(self, device):
        return SignalBatch(self.x_BT.to(device), self.length_B.to(device))

    def tokens(self):
        return int(self.length_B.sum())


@dataclass(frozen=True)
class Signal(Value):
    x: np.ndarray

    @classmethod
    def collate(cls, values):
        padded = nn.utils.rnn.pad_sequence([torch.from_numpy(value.x) for value in values], batch_first=True)
        return SignalBatch(padded, torch.tensor([len(value.x) for value in values]))

    @property
    def tokens(self):
        return len(self.x)


@field_kind("signal")
@dataclass(frozen=True)
class SignalField(Field):
    is_input: ClassVar[bool] = True

    unit: str = "volt"

    def describe(self):
        return f"signal in {self.unit}"

    def synthetic(self, rng, sizes):
        return Signal(rng.normal(size=int(rng.integers(1, 9))).astype(np.float32))

    def lengths(self, value):
        return {self.name: len(value.x)}

    def columns(self):
        return {self.name: StoredColumn(np.dtype("<f4"), counted=True)}

    def encode(self, rows, encoding):
        return {self.name: RaggedArray.concatenate([self._floats(row.get(self.name, "")) for row in rows], np.dtype("<f4"))}

    def _floats(self, cell):
        try:
            return np.array([float(part) for part in cell.split()], np.float32)
        except ValueError:
            raise InvalidCell(f"{cell!r} is not a signal") from None

    def assemble(self, values, info):
        return Signal(np.array(values[self.name], np.float32))

    def to_text(self, prediction):
        return " ".join(f"{x:g}" for x in prediction)

    @classmethod
    def json_value(cls, text):
        return [float(part) for part in text.split()]


@block("signals")
class Signals(TextSource):
    """Signals and their classes, from a table."""

    key_field = generated_field = "signal"

    def __init__(self, *, train: File, valid: File | None = None, test: File | None = None):
        super().__init__(train, valid, test, Character, 1, HoldOut(0.2), "error", "error", "utf-8")

    def text_fields(self):
        return {}

    def input_fields(self):
        return {"signal": TargetSpec(SignalField)}

    def target_fields(self):
        return {"label": TargetSpec(LabelField)}

    def rows(self, cursors):
        yield from tables(cursors[0], {name: ColumnSpec(name, (name,)) for name in ("signal", "label")}, self.table_format())

    def inputs(self, cursors):
        yield from tables(cursors[0], {"signal": ColumnSpec("signal", ("signal",))}, self.table_format())


@protocol
class ReadsSignals:
    """Mean and spread of a signal, classified."""

    def scores(self, signals): ...


@block("signal-model")
class SignalModel(Structure, ReadsSignals):
    """A linear classifier of the mean of a signal.

    Args:
        dim: Hidden size.
    """

    def __init__(self, info, *, dim: Count = 4):
        super().__init__(info)
        info.expect("signal", SignalField, "use data such as signals")
        self.dim = dim
        self.net = nn.Sequential(nn.Linear(1, dim), nn.Tanh(), nn.Linear(dim, info["label"].outputs))

    def scores(self, signals):
        return self.net((signals.x_BT.sum(1) / signals.length_B.clamp(min=1))[:, None])


class SignalObjective(Objective):
    needs = (ReadsSignals,)

    def prepare(self, example, rng, pool):
        return Instance(signal=example["signal"], label=example["label"])

    def forward(self, model, batch, clock):
        nll = F.cross_entropy(model.scores(batch["signal"]), batch["label"], reduction="sum")
        return Loss.of(nll, len(batch))


@block("signal-classification")
class SignalClassification(SignalObjective):
    """The class of a signal."""

    def predict(self, model, batch, search):
        return model.scores(batch["signal"]).argmax(-1).tolist()


@block("signal-echo")
class SignalEcho(SignalObjective):
    """Trained as a classifier; predicts the signal itself."""

    def predict(self, model, batch, search):
        rows = zip(batch["signal"].x_BT.tolist(), batch["signal"].length_B.tolist(), strict=True)
        return [FieldPrediction("signal", x[:n]) for x, n in rows]
'''
RECIPE = """\
seed: 1
device: cpu
data: {type: signals, train: signals.tsv}
structure: signal-model
objective: signal-classification
learning: {type: gradient, steps: 60, batch_tokens: 60, save_every: 30, optimizer: {type: adam, lr: 0.05}}
evaluate: {every: 30, metrics: [accuracy]}
"""
IMPORT = ("--import", "signal_plugin")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("signals")
    (home / "signal_plugin.py").write_text(PLUGIN)
    rng, lines = np.random.default_rng(0), ["signal\tlabel"]
    for row in range(120):
        x = rng.normal(1.5 if row % 2 else -1.5, 1, rng.integers(3, 12))
        lines.append(" ".join(f"{one:.3f}" for one in x) + f"\t{'high' if row % 2 else 'low'}")
    (home / "signals.tsv").write_text("\n".join(lines) + "\n")
    (home / "r.yaml").write_text(RECIPE)
    answer = run(home, "train", "r.yaml", "--run", "run")
    assert answer.code == 0, answer.err
    return home


def run(home: Path, *words: str, given: bytes = b""):
    return forked(*words, *IMPORT, output_folder=home, folder=home, given=given)


def test_it_is_checked_trained_on_and_stored(home: Path) -> None:
    answer = run(home, "check", "r.yaml")
    assert answer.code == 0 and "signal (signal in volt), label (label, 2 or more classes)" in answer.out, answer.err
    fields = json.loads((home / "run" / "fields.json").read_text())["fields"]
    assert fields[0] == {"kind": "signal", "name": "signal", "unit": "volt"}
    assert json.loads((home / "run" / "metrics.json").read_text())["accuracy"] == 1.0
    stored = [path for path in Path(os.environ["WEFT_CACHE"]).rglob("done.json") if (path.parent / "signal").is_file()]
    assert len(stored) >= 2, "training and validation split are prepared once each"
    floats = np.concatenate([np.fromfile(path.parent / "signal", "<f4") for path in stored])
    written = [float(x) for line in (home / "signals.tsv").read_text().splitlines()[1:] for x in line.split("\t")[0].split()]
    assert sorted(floats.tolist()) == sorted(np.float32(written).tolist())


def test_it_is_resumed_and_gives_the_same_weights(home: Path) -> None:
    assert run(home, "train", "r.yaml", "learning.steps=30", "--run", "half", "--keep").code == 0
    answer = run(home, "train", "half", "learning.steps=60", "--resume")
    assert answer.code == 0, answer.err
    assert (home / "half" / "model.safetensors").read_bytes() == (home / "run" / "model.safetensors").read_bytes()


def test_it_is_predicted_from(home: Path) -> None:
    answer = run(home, "predict", "run", given=b"2 1.5 0.9\n-1 -3\n")
    assert answer.code == 0 and answer.out.splitlines() == ["high", "low"], answer.err
    answer = run(home, "predict", "run", given=b"2 high\n")
    assert answer.code == 1 and answer.out == "\n" and "'2 high' is not a signal" in answer.err
    assert (
        run(home, "train", "r.yaml", "objective=signal-echo", "learning.steps=1", "evaluate.metrics=null", "--run", "echo").code
        == 0
    )
    answer = run(home, "predict", "echo", "--json", given=b"2 1.5\n")
    assert json.loads(answer.out) == {"signal": "2 1.5", "answer": [2.0, 1.5]}, answer.err


def test_without_the_plugin_the_message_names_it(home: Path) -> None:
    answer = forked("predict", "run", output_folder=home, folder=home, given=b"1 2\n")
    assert answer.code == 2 and "add --import signal_plugin" in answer.err
