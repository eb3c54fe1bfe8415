"""Heads: logits, losses against torch, and memory of the logits."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from weft.blocks import ClassifierHead, Dense, SinusoidalPositionEmbedder, TiedHead, TokenEmbedder, UntiedHead
from weft.blocks.heads import nll as nll_module
from weft.core.fields import TextField

FIELD = TextField("text", 13)


@pytest.fixture
def small_chunks(monkeypatch):
    """At most 5 rows of logits at a time."""
    assert nll_module.MAX_LOGITS >= 2**20
    monkeypatch.setattr(nll_module, "MAX_LOGITS", 5 * FIELD.vocab + 3)


def heads():
    yield TiedHead(4, FIELD, TokenEmbedder(4, FIELD))
    yield UntiedHead(4, FIELD, None)
    yield ClassifierHead(4, FIELD, None, hidden=6)


def gradients(head, loss, x):
    parameters = [*head.parameters(), *(head._tie[0].parameters() if isinstance(head, TiedHead) else ())]
    return torch.autograd.grad(loss, [x, *parameters])


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 5, 6, 17])
def test_chunked_loss_and_gradients_equal_torch(small_chunks, number, smoothing, rows):
    head = list(heads())[number].double()
    if isinstance(head, TiedHead):
        head._tie[0].double()
    x = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
    target = torch.randint(FIELD.vocab, (rows,))
    weight = torch.rand(rows, dtype=torch.float64)
    ours = head.nll(x, target, smoothing)
    theirs = F.cross_entropy(head(x), target, reduction="none", label_smoothing=smoothing)
    assert ours.shape == (rows,)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    got, want = gradients(head, (ours * weight).sum(), x), gradients(head, (theirs * weight).sum(), x)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


def kept(head, rows):
    """Number of elements saved for the backward pass, and of the largest tensor computed in it."""
    x = torch.randn(rows, 4, requires_grad=True)
    sizes = []

    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = head.nll(x, torch.zeros(rows, dtype=torch.long)).sum()
    loss.backward()
    return sizes


def test_logits_of_many_rows_are_not_stored(small_chunks):
    head, rows = UntiedHead(4, FIELD, None), 500
    whole = rows * FIELD.vocab
    assert max(kept(head, 5)) >= 5 * FIELD.vocab  # the hook sees logits that are stored
    sizes = kept(head, rows)
    assert max(sizes, default=0) < whole / 3
    assert sum(s for s in sizes if s >= 5 * FIELD.vocab) < whole / 3


def test_loss_is_chunked_without_gradients_too(small_chunks):
    seen = []

    def logits(x):
        seen.append(len(x))
        return x @ torch.ones(4, FIELD.vocab)

    with torch.no_grad():
        nll_module.nll(logits, torch.randn(12, 4), torch.zeros(12, dtype=torch.long), 0.0, FIELD.vocab)
    assert seen == [5, 5, 2]


def test_empty_batch_has_no_losses():
    for head in heads():
        assert head.nll(torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_loss_of_a_half_precision_head_is_computed_in_float32():
    head = UntiedHead(4, FIELD, None).bfloat16()
    x, target = torch.randn(6, 4).bfloat16(), torch.randint(13, (6,))
    loss = head.nll(x, target)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, F.cross_entropy(head(x).float(), target, reduction="none"))


def test_tied_head_shares_the_embedding_matrix_without_owning_it():
    token = TokenEmbedder(4, FIELD)
    head = TiedHead(4, FIELD, token, scale=3.0)
    assert list(head.state_dict()) == ["bias"]
    x = torch.randn(2, 4)
    torch.testing.assert_close(head(x), 3 * x @ token.weight.T)
    with torch.no_grad():
        token.weight.mul_(2)
    torch.testing.assert_close(head(x), 3 * x @ token.weight.T)


def test_deep_copies_stay_tied_to_their_own_embedding_matrix():
    token = TokenEmbedder(4, FIELD)
    pair = copy.deepcopy(torch.nn.ModuleList([token, TiedHead(4, FIELD, token)]))
    with torch.no_grad():
        pair[0].weight.zero_()
    assert not pair[1](torch.ones(1, 4)).any()
    assert token.weight.any()


def test_tied_head_rejects_embedding_matrices_of_another_shape():
    with pytest.raises(ValueError, match=r"needs an embedder to share weights with.*use untied"):
        TiedHead(4, FIELD, None)
    with pytest.raises(ValueError, match="SinusoidalPositionEmbedder has no embedding matrix to tie a head to"):
        TiedHead(4, FIELD, SinusoidalPositionEmbedder(4, FIELD))
    with pytest.raises(ValueError, match=r"13 x 4 cannot be tied to an embedding matrix of 9 x 4; use untied"):
        TiedHead(4, FIELD, TokenEmbedder(4, TextField("text", 9)))


def test_untied_head_with_a_smaller_embedding_dim():
    head, x = UntiedHead(4, FIELD, None, transform=Dense, embedding_dim=2), torch.randn(3, 4)
    torch.testing.assert_close(head(x), head.out(head.transform(x)))
    assert head.out.weight.shape == (FIELD.vocab, 2)
    with pytest.raises(ValueError, match="embedding_dim is 2, but dim is 4 and there is no transform; set transform"):
        UntiedHead(4, FIELD, None, embedding_dim=2)


def test_classifier_head_has_a_hidden_layer_and_dropout_in_training_only():
    head = ClassifierHead(4, FIELD, None, hidden=6, dropout=0.5)
    x = torch.randn(3, 4)
    assert not torch.allclose(head(x), head(x))
    head.eval()
    torch.testing.assert_close(head(x), head.out(torch.tanh(head.hidden(x))))
    assert [n for n, _ in ClassifierHead(4, FIELD, None).named_parameters()] == ["out.weight", "out.bias"]
