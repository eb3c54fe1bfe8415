"""Multiple choice: encoder, pooler, and one logit per choice."""

from __future__ import annotations

from functools import partial

from weft.blocks import LSTM, ClassifierHead, MaxPooler, SumEmbedder
from weft.core.contracts import CHOICE, Embedder, Encoder, Head, Pooler, ScoresChoices
from weft.core.fields import Info
from weft.core.options import Dim, FileOrFolder
from weft.core.registry import Build, block
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
        >>> from weft.core.fields import Field
        >>> from weft.core.seq import Seq
        >>> model = MultipleChoiceModel(Info({"choices": Field("choices", 11, kind="texts")}), dim=8)
        >>> model.choice_head(model.features(Seq(torch.tensor([[7, 6, 8, 2], [7, 6, 9, 2]])))).shape
        torch.Size([2, 1])
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
        choices = info.expect("choices", "texts", "use data such as multiple-choice")
        super().__init__(info, choices, dim=dim, embedder=embedder, encoder=encoder, pooler=pooler, weights=weights)
        self.choice_head = head(dim, CHOICE, None)
