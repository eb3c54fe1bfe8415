"""The parts of the plug-in: a source, an activation, a mixer, an objective, a metric and a model family."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import weft
from weft.core.batch import Instance
from weft.core.contracts import Activation, Codec, Corpus, Data, Encodes, Metric, Mixed, Mixer, Objective
from weft.core.fields import Info, NumberField, TextField
from weft.core.loss import Loss
from weft.core.options import Count
from weft.data import Character
from weft.models.zoo.family import FAMILIES, register_family
from weft.training.recipes import register_recipes

LETTERS = "abcdefgh"


@weft.block("letters")
class Letters(Data):
    """Random strings; the target is the number of their vowels.

    Args:
        rows: Number of training examples.
    """

    def __init__(self, *, rows: Count = 200):
        self.rows = rows

    def tokenizers(self):
        return {"letters": Character(vocab_size=15)}

    def declare(self):
        text = TextField("text", 15, max_length=8, space="letters")
        return Info({"text": text, "label": NumberField("label")}, data="letters")

    def open(self, codec=None, *, tokenizers=None, splits=(), progress=None):
        if codec is None:
            codec = Codec(self.declare(), self.tokenizers())
            codec.tokenizers["letters"].train([LETTERS])
        sizes = {"train": self.rows, "valid": 40}
        datasets = {name: Strings(codec, size, seed) for seed, (name, size) in enumerate(sizes.items())}
        return Corpus(codec, datasets, {name: {"rows": size} for name, size in sizes.items()})


class Strings:
    """A split of the source."""

    def __init__(self, codec, size, seed):
        rng = np.random.default_rng(seed)
        self.codec, self.texts = codec, ["".join(rng.choice(list(LETTERS), rng.integers(1, 8))) for _ in range(size)]
        self.lengths = {"text": np.array([len(text) for text in self.texts])}

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, row):
        return {"text": self.codec.encode("text", self.texts[row]), "label": float(self.raw(row)["label"])}

    def raw(self, row):
        return {"text": self.texts[row], "label": str(sum(letter in "ae" for letter in self.texts[row]))}


@weft.block("absolute")
class Absolute(Activation):
    """Absolute value: y = |x|."""

    def forward(self, x):
        return x.abs()


@weft.block("mean-mixer")
class MeanMixer(Mixer):
    """The mean of all positions, as the output of each."""

    def forward(self, x, mask, position=None, past=None):
        real_BT1 = torch.ones_like(x.data[..., :1]) if x.mask is None else x.mask.unsqueeze(-1).to(x.data.dtype)
        mean_B1D = (x.data * real_BT1).sum(1, keepdim=True) / real_BT1.sum(1, keepdim=True).clamp(min=1)
        return Mixed(x.with_data(mean_B1D.expand_as(x.data)), None)


@weft.block("count-vowels")
class CountVowels(Objective):
    """Predict the number of vowels from the sum of the hidden states: the squared error, summed over the examples."""

    needs = (Encodes,)
    metrics = ("off-by",)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.head = torch.nn.Linear(dim, 1)

    def prepare(self, example, rng, pool):
        return Instance(text=example["text"], label=float(example["label"]))

    def counts(self, batch):
        return {"loss": len(batch)}

    def forward(self, model, batch, clock):
        return Loss.of(F.mse_loss(self.estimate(model, batch), batch["label"], reduction="sum"), len(batch))

    def predict(self, model, batch, search):
        return self.estimate(model, batch).tolist()

    def estimate(self, model, batch):
        states = model.encode(batch["text"])
        real_BT = torch.ones(states.data.shape[:2]) if states.mask is None else states.mask.float()
        return (self.head(states.data).squeeze(-1) * real_BT).sum(1)


@weft.block("off-by")
class OffBy(Metric):
    """Mean absolute difference between the predicted and the true number of vowels."""

    inputs = "label"
    higher_is_better = {"off_by": False}

    def compute(self, predictions, references):
        wrong = [abs(float(p) - float(r["label"])) for p, r in zip(predictions, references, strict=True)]
        return {"off_by": sum(wrong) / len(wrong)}


register_family(replace(FAMILIES["bert"], model_type="letters-bert"))
register_recipes(Path(__file__).parent / "recipes")
