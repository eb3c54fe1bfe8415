"""A plug-in for tests: texts with a class, read and written; a network that writes texts of a class from a latent space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from weft.batch import Batch, Clock, Example, Info, Instance, Loss
from weft.catalog import Build, block
from weft.choices import Width
from weft.data import LabelledText
from weft.data.reading import Cursor, Row
from weft.models import TextVAE
from weft.models.latent_writer import LatentWriter
from weft.models.text_vae import BOTH
from weft.objectives.elbo import row_nll
from weft.objectives.next_token import next_tokens
from weft.seq import Memory
from weft.slots import Decodes, Latent, Objective, Search, Structure


@block("twice")
class Twice(LabelledText):
    """Each text as source and as target, with its class."""

    by, generated = "source", "target"

    def texts(self) -> dict[str, str]:
        return {"source": "text", "target": "text"}

    def rows(self, cursors: list[Cursor]) -> Iterator[Row]:
        for row in super().rows(cursors):
            cells = {"source": row.cells["text"], "target": row.cells["text"], "label": row.cells["label"]} if row.cells else {}
            yield row._replace(cells=cells)


@block("labelled-vae")
class LabelledVAE(TextVAE):
    """Writes from a place and a class."""

    labelled = draws_labelled = True

    def __init__(self, info: Info, *, latent: Width = 4, reader: Build[Structure], writer: Build[Structure]):
        super().__init__(info, latent=latent, reader=reader, writer=writer)
        self.writer = LatentWriter(info.alone("target"), latent, writer, BOTH, label_dim=4)

    def memory(self, batch: Batch) -> Memory:
        return self.write_from(self.posterior(batch["source"]).mean_BP, batch["label"])

    def write_from(self, z_BP: Tensor, label_B: Tensor | None = None) -> Memory:
        return self.writer.write_from(z_BP, label_B)


@block("write-again")
class WriteAgain(Objective):
    """Write a text again from its place and its class."""

    needs = (Decodes, Latent)

    def __init__(self, info: Info, dim: int):
        super().__init__(info, dim)
        self.info = info

    def prepare(self, example: Example, rng: Any, pool: Any) -> Instance:
        source = self.info["source"].frame.around([example["source"]])
        return Instance(source=source, label=example["label"], **next_tokens(example["target"], self.info["target"]))

    def forward(self, model: Any, batch: Batch, clock: Clock) -> Loss:
        z_BP = model.posterior(batch["source"]).mean_BP
        return Loss.of(row_nll(model, batch, z_BP, batch["label"]).sum(), len(batch))

    def predict(self, model: Any, batch: Batch, search: Search) -> list[Any]:
        return search(model, model.memory(batch), limits=[search.limit(8)] * len(batch), keys=batch.rows)
