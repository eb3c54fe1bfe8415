"""``Seq`` validates its mask, and blocks refuse what is not a ``Seq``."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.blocks import LSTM, BagOfWords, MeanPooler, TokenEmbedder, Transformer, TransformerDecoder
from weft.core.fields import Info, LabelField, TextField
from weft.core.seq import Seq
from weft.models import Classifier, LanguageModel

INFO = Info({"text": TextField("text", 17), "label": LabelField("label", 3)})


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.long, torch.uint8])
def test_a_mask_of_another_type_is_refused(dtype: torch.dtype, device: str) -> None:
    mask = torch.ones(2, 3, dtype=dtype, device=device)
    message = rf"^the mask of a Seq must be a bool tensor \(True = real\), got {dtype}; convert it: mask.bool\(\)$"
    with pytest.raises(TypeError, match=message):
        Seq(torch.zeros(2, 3, 4, device=device), mask)
    Seq(torch.zeros(2, 3, 4, device=device), mask.bool())


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("shape", [(3, 2), (1, 3), (2, 1), (2, 3, 4), (2,)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...], device: str) -> None:
    mask = torch.ones(shape, dtype=torch.bool, device=device)
    with pytest.raises(ValueError, match=r"must be B x T = 2 x 3 for data of shape \(2, 3, 4\), got \(" + str(shape[0])):
        Seq(torch.zeros(2, 3, 4, device=device), mask)


def test_an_image_is_one_position() -> None:
    images = torch.zeros(2, 3, 8, 8)
    Seq(images, torch.ones(2, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="B x T = 2 x 1"):
        Seq(images, torch.ones(2, 3, dtype=torch.bool))


def test_the_check_compiles_for_any_shape() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]):
        graphs.append(graph)
        return graph.forward

    def mean(data: Tensor, mask: Tensor) -> Tensor:
        return MeanPooler(4)(Seq(data, mask))

    torch._dynamo.reset()
    compiled = torch.compile(mean, backend=backend, fullgraph=True, dynamic=True)
    for rows, width in ((2, 3), (5, 7)):
        data, mask = torch.randn(rows, width, 4), torch.rand(rows, width) < 0.7
        torch.testing.assert_close(compiled(data, mask), mean(data, mask))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    "block",
    [TokenEmbedder(8, INFO["text"]), Transformer(8), LSTM(8), BagOfWords(8), TransformerDecoder(8, None), MeanPooler(8)],
    ids=lambda block: type(block).__name__,
)
def test_a_block_refuses_a_tensor(block: torch.nn.Module) -> None:
    x = torch.zeros(2, 3, dtype=torch.long) if isinstance(block, TokenEmbedder) else torch.zeros(2, 3, 8)
    with pytest.raises(TypeError, match=rf"^{type(block).__name__} expected a weft Seq, got Tensor; wrap it: Seq\(x\)$"):
        block(x)
    block(Seq(x))


def test_a_model_refuses_a_tensor() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    classifier = Classifier(INFO, dim=8, encoder=Transformer, pooler=MeanPooler)
    language_model = LanguageModel(INFO, dim=8)
    for method in (classifier.encode, classifier.features, lambda x: language_model.decode(x, None)):
        with pytest.raises(TypeError, match=r"expected a weft Seq, got Tensor; wrap it: Seq\(x\)$"):
            method(ids)
        method(Seq(ids))
