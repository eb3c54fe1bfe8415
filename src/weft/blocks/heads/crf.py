"""Linear-chain CRF over tag sequences. Shape suffixes: C tags, T words with padding on the right; others: see seq.py."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.contracts import LinearChain
from weft.core.fields import Field
from weft.core.registry import block


@block("crf")
class CRF(LinearChain):
    """Linear-chain conditional random field (CRF) with a learned score for each pair of neighboring tags.

    p(y | x) = exp(s(x, y)) / sum_y' exp(s(x, y')),  s(x, y) = a[y_1] + sum_t score_t[y_t] + sum_t A[y_t-1, y_t] + b[y_T]

    The forward algorithm computes the sum over all tag sequences in O(T C^2), the Viterbi algorithm the most probable sequence.
    Transition scores are initialized to 0, so that tags are independent before training.

    Lafferty et al. 2001; on top of a neural network: Collobert et al. 2011, https://arxiv.org/abs/1103.0398; Lample et al. 2016,
    https://arxiv.org/abs/1603.01360

    Example:
        >>> from weft.core.fields import TagsField
        >>> crf = CRF(TagsField("tags", 2))
        >>> crf.best(torch.tensor([[[0.0, 1.0], [2.0, 0.0]]]), torch.ones(1, 2).bool()).tolist()
        [[1, 0]]
    """

    def __init__(self, field: Field):
        super().__init__(field)
        self.pair = nn.Parameter(torch.zeros(field.outputs, field.outputs))
        self.first = nn.Parameter(torch.zeros(field.outputs))
        self.last = nn.Parameter(torch.zeros(field.outputs))

    def nll(self, score_BTC: Tensor, tag_BT: Tensor, mask_BT: Tensor) -> Tensor:
        score_BTC = score_BTC.float() if score_BTC.dtype in (torch.bfloat16, torch.float16) else score_BTC
        pair_CC, first_C, last_C = (p.to(score_BTC.dtype) for p in (self.pair, self.first, self.last))
        alpha_BC = first_C + score_BTC[:, 0]
        for t in range(1, score_BTC.shape[1]):
            next_BC = (alpha_BC[:, :, None] + pair_CC).logsumexp(1) + score_BTC[:, t]
            alpha_BC = torch.where(mask_BT[:, t, None], next_BC, alpha_BC)
        log_partition_B = (alpha_BC + last_C).logsumexp(1)
        gold_BT = score_BTC.gather(2, tag_BT[..., None]).squeeze(2)
        gold_BT = gold_BT + torch.cat([first_C[tag_BT[:, :1]], pair_CC[tag_BT[:, :-1], tag_BT[:, 1:]]], 1)
        end_B1 = tag_BT.gather(1, (mask_BT.sum(1, keepdim=True) - 1).clamp(min=0))
        gold_B = gold_BT.masked_fill(~mask_BT, 0.0).sum(1) + last_C[end_B1].squeeze(1)
        return (log_partition_B - gold_B).masked_fill(~mask_BT[:, 0], 0.0)

    @torch.no_grad()
    def best(self, score_BTC: Tensor, mask_BT: Tensor) -> Tensor:
        identity_C = torch.arange(score_BTC.shape[2], device=score_BTC.device)
        max_BC = self.first + score_BTC[:, 0]
        backpointers: list[Tensor] = []
        for t in range(1, score_BTC.shape[1]):
            best = (max_BC[:, :, None] + self.pair).max(1)
            max_BC = torch.where(mask_BT[:, t, None], best.values + score_BTC[:, t], max_BC)
            backpointers.append(
                torch.where(mask_BT[:, t, None], best.indices, identity_C)
            )  # padding repeats the tag of the last word
        tag_B1 = (max_BC + self.last).argmax(1, keepdim=True)
        path = [tag_B1]
        for pointer_BC in reversed(backpointers):
            tag_B1 = pointer_BC.gather(1, tag_B1)
            path.append(tag_B1)
        return torch.cat(path[::-1], 1).masked_fill(~mask_BT, 0)
