"""A linear chain over the tags of a text. C tags; T words, padding on the right; other suffixes: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.contracts import LinearChain
from weft.core.fields import Field
from weft.core.registry import block


@block("crf")
class CRF(LinearChain):
    """A conditional random field: a score for each pair of neighbouring tags, and the tags of a text are judged together.

    p(y | x) = exp(s(x, y)) / sum_y' exp(s(x, y')),  s(x, y) = a[y_1] + sum_t score_t[y_t] + sum_t A[y_t-1, y_t] + b[y_T]

    The sum is over all sequences of tags, by the forward algorithm in O(T C^2); the best sequence is Viterbi's. All pairs
    begin with the score 0, so that untrained, tags are independent.

    Lafferty et al. 2001; over a network: Collobert et al. 2011, https://arxiv.org/abs/1103.0398; Lample et al. 2016,
    https://arxiv.org/abs/1603.01360

    Example:
        >>> crf = CRF(Field("tags", 2, kind="tags"))
        >>> crf.best(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), torch.ones(1, 2).bool()).tolist()
        [[1, 0]]
    """

    def __init__(self, field: Field):
        super().__init__(field)
        self.pair = nn.Parameter(torch.zeros(field.vocab, field.vocab))
        self.first = nn.Parameter(torch.zeros(field.vocab))
        self.last = nn.Parameter(torch.zeros(field.vocab))

    def nll(self, score_BTC: Tensor, tag_BT: Tensor, mask_BT: Tensor) -> Tensor:
        score_BTC = score_BTC.float() if score_BTC.dtype in (torch.bfloat16, torch.float16) else score_BTC
        pair_CC, first_C, last_C = (p.to(score_BTC.dtype) for p in (self.pair, self.first, self.last))
        sum_BC = first_C + score_BTC[:, 0]
        for t in range(1, score_BTC.shape[1]):
            next_BC = (sum_BC[:, :, None] + pair_CC).logsumexp(1) + score_BTC[:, t]
            sum_BC = torch.where(mask_BT[:, t, None], next_BC, sum_BC)
        all_B = (sum_BC + last_C).logsumexp(1)
        own_BT = score_BTC.gather(2, tag_BT[..., None]).squeeze(2)
        own_BT = own_BT + torch.cat([first_C[tag_BT[:, :1]], pair_CC[tag_BT[:, :-1], tag_BT[:, 1:]]], 1)
        end_B1 = tag_BT.gather(1, (mask_BT.sum(1, keepdim=True) - 1).clamp(min=0))
        own_B = own_BT.masked_fill(~mask_BT, 0.0).sum(1) + last_C[end_B1].squeeze(1)
        return (all_B - own_B).masked_fill(~mask_BT[:, 0], 0.0)

    @torch.no_grad()
    def best(self, score_BTC: Tensor, mask_BT: Tensor) -> Tensor:
        stay_C = torch.arange(score_BTC.shape[2], device=score_BTC.device)
        most_BC = self.first + score_BTC[:, 0]
        before: list[Tensor] = []
        for t in range(1, score_BTC.shape[1]):
            found = (most_BC[:, :, None] + self.pair).max(1)
            most_BC = torch.where(mask_BT[:, t, None], found.values + score_BTC[:, t], most_BC)
            before.append(torch.where(mask_BT[:, t, None], found.indices, stay_C))  # at padding the last word's tag is handed on
        tag_B1 = (most_BC + self.last).argmax(1, keepdim=True)
        path = [tag_B1]
        for before_BC in reversed(before):
            tag_B1 = before_BC.gather(1, tag_B1)
            path.append(tag_B1)
        return torch.cat(path[::-1], 1).masked_fill(~mask_BT, 0)
