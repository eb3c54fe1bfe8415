"""Embeddings of the texts of a run trained from scratch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

import weft
from weft import blocks, data, learning, models, objectives


def test_a_run_with_character_ngrams_embeds_texts(tmp_path: Path) -> None:
    (tmp_path / "films.tsv").write_text("text\tlabel\n" + "a good film\tyes\na bad film\tno\n" * 10)
    trained = weft.Run(
        data=partial(data.LabeledText, train=str(tmp_path / "films.tsv"), tokenizer=partial(data.Word, max_characters=8)),
        structure=partial(models.Classifier, dim=8, embedder=blocks.CharNgrams, encoder=blocks.BagOfWords),
        objective=objectives.Classification,
        learning=partial(learning.Gradient, steps=2),
    ).train(tmp_path / "run", quiet=True)
    texts = ["a good film", "bad", "unknownword film"]
    together = trained.embed(texts)
    assert together.shape == (3, 8)
    np.testing.assert_allclose(together, np.concatenate([trained.embed([text]) for text in texts]), atol=1e-6)
    assert not np.allclose(together[1], together[2])
