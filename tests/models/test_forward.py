"""``forward`` of the task models: what each task predicts, for training loops outside of weft and for ``torch.export``."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.blocks import GRU, Transformer
from weft.core.fields import ImageField, Info, LabelField, SpanField, TagsField, TextField, TextsField
from weft.core.seq import Memory, Seq
from weft.models import (
    Classifier,
    ImageEncoder,
    LanguageModel,
    MultipleChoiceModel,
    Seq2Seq,
    Seq2SeqClassifier,
    SpanExtractor,
    Tagger,
    TextEncoder,
    TextVAE,
    bart,
    bert,
    gpt2,
    t5,
)

VOCAB = 30
TEXT = TextField("text", VOCAB)
LABEL = LabelField("label", 3)
LABELED = Info({"text": TEXT, "label": LABEL})
TAGGED = Info({"text": TEXT, "tags": TagsField("tags", 5)})
PLAIN = Info({"text": TEXT})
PARALLEL = Info({"source": TextField("source", VOCAB), "target": TextField("target", VOCAB)}, target="target")
CHOICES = Info({"choices": TextsField("choices", VOCAB)})
QUESTIONS = Info(
    {name: TextField(name, VOCAB) for name in ("question", "context")} | {"answer": SpanField("answer", of="context")}
)
IMAGES = Info({"image": ImageField("image", 3, 32, 32)})
SMALL: dict[str, Any] = {"dim": 16, "layers": 2, "heads": 2}
TRANSFORMER = partial(Transformer, layers=2)


def ids(rows: int, width: int, seed: int = 0) -> Tensor:
    return torch.randint(7, VOCAB, (rows, width), generator=torch.Generator().manual_seed(seed))


def mask_of(rows: int, width: int) -> Tensor:
    """Only the first row has padding."""
    mask = torch.ones(rows, width, dtype=torch.bool)
    mask[0, width // 2 :] = False
    return mask


def test_each_task_predicts_what_its_head_and_its_hidden_states_give() -> None:
    x, mask = ids(2, 6), mask_of(2, 6)
    seq = Seq(x, mask)
    classifier = Classifier(LABELED, dim=16).eval()
    assert torch.equal(classifier(x, mask), classifier.classifier(classifier.pooler(classifier.encode(seq))))  # pyright: ignore
    tagger = Tagger(TAGGED, dim=16).eval()
    assert torch.equal(tagger(x, mask), tagger.tag_head(tagger.encode(seq).data))
    encoder = TextEncoder(PLAIN, dim=16).eval()
    assert torch.equal(encoder(seq), encoder.encode(seq).data)
    spans = SpanExtractor(QUESTIONS, dim=16).eval()
    assert spans(seq).shape == (2, 6, 2)
    model = LanguageModel(PLAIN, dim=16).eval()
    assert torch.equal(model(x, mask), model.head(model.decode(seq, None).hidden.data))
    both = Seq2SeqClassifier(LABELED, dim=16).eval()
    assert torch.equal(both(seq), both.classifier(both.features(seq)))
    assert ImageEncoder(IMAGES, dim=16)(torch.zeros(2, 3, 32, 32)).shape == (2, 5, 16)


def test_a_language_model_with_a_pooler_classifies() -> None:
    from weft.blocks import LastPooler

    model = LanguageModel(LABELED, dim=16, pooler=LastPooler).eval()
    assert model(ids(2, 6)).shape == (2, 3)


def test_an_encoder_decoder_is_teacher_forced() -> None:
    model = Seq2Seq(PARALLEL, dim=16).eval()
    x, y, x_mask, y_mask = ids(2, 6), ids(2, 4, 1), mask_of(2, 6), mask_of(2, 4)
    encoded = model.encode(Seq(x, x_mask))
    assert model.pooler is not None
    hidden = model.decode(Seq(y, y_mask), Memory((encoded,), model.pooler(encoded))).hidden.data
    assert torch.equal(model(x, y, x_mask, y_mask), model.head(hidden))
    changed = y.clone()
    changed[:, 2] += 1
    assert torch.equal(model(x, changed)[:, :2], model(x, y)[:, :2]) and not torch.equal(model(x, changed), model(x, y))


def test_choices_are_scored_alone_or_with_their_question() -> None:
    model = MultipleChoiceModel(CHOICES, dim=16).eval()
    x, mask = ids(6, 5).view(2, 3, 5), mask_of(6, 5).view(2, 3, 5)
    flat = model(x.flatten(0, 1), mask.flatten(0, 1))
    assert flat.shape == (6,) and torch.equal(model(x, mask), flat.view(2, 3))


def test_a_class_conditional_autoencoder_needs_the_class() -> None:
    info = Info({**PARALLEL.fields, "label": LABEL}, target="target")
    model = TextVAE(info, latent=4, label_dim=4).eval()
    one, other = (model(ids(2, 5), ids(2, 4), label=torch.tensor([label, label])) for label in (0, 1))
    assert one.shape == (2, 4, VOCAB) and not torch.allclose(one, other)
    with pytest.raises(ValueError, match="class-conditional, but no label"):
        model(ids(2, 5), ids(2, 4))


def test_a_mask_that_is_not_boolean_and_two_masks_are_errors() -> None:
    model = Classifier(LABELED, dim=16)
    with pytest.raises(TypeError, match=r"must be a bool tensor .*mask\.bool"):
        model(ids(2, 5), torch.ones(2, 5))
    with pytest.raises(TypeError, match="a Seq has its own mask"):
        model(Seq(ids(2, 5)), mask_of(2, 5))


def test_it_trains_in_a_plain_loop() -> None:
    torch.manual_seed(0)
    model = Classifier(LABELED, dim=16, encoder=partial(GRU, bidirectional=True))
    x = ids(32, 6)
    label = (x[:, 0] % 3).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = F.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2  # chance is 1.1


EXPORTED: dict[str, tuple[Any, bool]] = {
    "classifier": (partial(Classifier, LABELED, dim=16), False),
    "classifier-transformer": (partial(Classifier, LABELED, dim=16, encoder=TRANSFORMER), True),
    "bert": (lambda: bert(**SMALL, hidden=32, length=40, task="classification")(LABELED), True),
    "tagger": (partial(Tagger, TAGGED, dim=16, encoder=TRANSFORMER), True),
    "language-model": (partial(LanguageModel, PLAIN, dim=16), True),
    "gpt2": (lambda: gpt2(**SMALL, length=40)(PLAIN), True),
    "seq2seq": (partial(Seq2Seq, PARALLEL, dim=16), False),
    "t5": (lambda: t5(**SMALL, hidden=32)(PARALLEL), True),
    "bart": (lambda: bart(**SMALL, hidden=32, length=40)(PARALLEL), True),
}
"""Models, and whether their length can be dynamic: torch unrolls an LSTM over its steps."""


@pytest.mark.parametrize("name", EXPORTED)
def test_the_exported_program_computes_the_same_at_other_sizes(name: str) -> None:
    build, any_length = EXPORTED[name]
    model = build().eval()

    def inputs(rows: int, width: int) -> tuple[Tensor, ...]:
        if isinstance(model, Seq2Seq):
            return ids(rows, width), ids(rows, width + 2, 1), mask_of(rows, width), mask_of(rows, width + 2)
        return ids(rows, width), mask_of(rows, width)

    auto = torch.export.Dim.AUTO
    shapes = tuple({0: auto, 1: auto} if any_length else {0: auto} for _ in inputs(3, 9))
    program = torch.export.export(model, inputs(3, 9), dynamic_shapes=shapes).module()
    for rows, width in ((3, 9), (5, 9), *([(4, 12)] if any_length else [])):
        given = inputs(rows, width)
        torch.testing.assert_close(program(*given), model(*given), rtol=1e-5, atol=1e-6)
