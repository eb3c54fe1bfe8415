"""Multiple choice: encoder, pooler, and one logit per choice."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from weft.blocks import LSTM, ClassifierHead, MaxPooler, SumEmbedder
from weft.core.contracts import CHOICE, Embedder, Encoder, Head, Pooler, ScoresChoices
from weft.core.fields import Info, TextsField
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
from weft.core.seq import Seq
from weft.models.encoder_model import EncoderModel


@block("multiple-choice")
class MultipleChoiceModel(EncoderModel, ScoresChoices):
    """Multiple choice: scores each of several texts (field ``choices``).

    p(i | x_1, x_2, ...) = softmax_i(head(pooler(encoder(embedder(x_i))))),  x_i = the question and choice i in one sequence

    Devlin et al. 2019 (BERT, section 4.4), https://arxiv.org/abs/1810.04805

    Args:
        dim: Hidden size.
        embedder: Embeds the tokens.
        encoder: Maps the embeddings of a question with one of its choices to hidden states.
        pooler: Pools the hidden states into one vector.
        head: Scores the vector with one logit.
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> import torch
        >>> from weft.core.fields import TextsField
        >>> model = MultipleChoiceModel(Info({"choices": TextsField("choices", 11)}), dim=8)
        >>> model(torch.tensor([[[7, 6, 8, 2], [7, 6, 9, 2]]])).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        info: Info,
        *,
        dim: Dim = 128,
        embedder: Build[Embedder] = SumEmbedder,
        encoder: Build[Encoder] = partial(LSTM, bidirectional=True),
        pooler: Build[Pooler] = MaxPooler,
        head: Build[Head] = ClassifierHead,
        weights: FileOrFolder | None = None,
    ):
        choices = info.expect("choices", TextsField, "use data such as multiple-choice")
        super().__init__(info, choices, dim=dim, embedder=embedder, encoder=encoder, pooler=pooler, weights=weights)
        self.choice_head = head(dim, CHOICE, None)

    def forward(self, x: Seq | Tensor, mask: Tensor | None = None) -> Tensor:
        """The logit of each sequence: N for N x T ids or a ``Seq``, B x C for B x C x T ids, a question with C choices each.

        See ``Structure``.
        """
        if isinstance(x, Tensor) and x.ndim == 3:
            return self(x.flatten(0, 1), None if mask is None else mask.flatten(0, 1)).unflatten(0, x.shape[:2])
        return self.choice_head(self.features(Seq.of(x, mask)))[:, 0]
