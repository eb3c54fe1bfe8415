"""The same beam as transformers' with early_stopping="never", which stops on the same bound."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

from weft.core.fields import Special, TextField
from weft.core.seq import Decoded, Seq
from weft.generate import BeamSearch

EOS = 5


@dataclass(frozen=True)
class Read:
    ids_BT: Tensor

    def select(self, rows: Tensor) -> Read:
        return Read(self.ids_BT[rows])


class Wrapped(nn.Module):
    """A language model of transformers that reads its whole prefix again at every step."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, model.lm_head
        nowhere = Special(pad=-1, bos=-1, eos=EOS, unk=-1, mask=-1, cls=-1, sep=-1)
        self.target = TextField("text", model.config.vocab_size, special=nowhere)

    def start(self, memory: None, rows: int) -> Read:
        return Read(torch.empty(rows, 0, dtype=torch.long))

    def step(self, x: Seq, state: Read) -> Decoded:
        ids_BT = torch.cat([state.ids_BT, x.data], 1)
        return Decoded(Seq(self.model.transformer(ids_BT).last_hidden_state[:, -x.width :]), Read(ids_BT))


@pytest.mark.parametrize("seed", [0, 1])
def test_same_sequences_and_scores(seed):
    transformers = import_module("transformers")
    torch.manual_seed(seed)
    sizes = {"vocab_size": 13, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.6}
    marks = {"bos_token_id": None, "eos_token_id": EOS, "pad_token_id": EOS}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **marks)).eval()
    prompt = torch.randint(6, 13, (5, 3))
    for width, alpha, limit in [(2, 0.0, 12), (4, 0.6, 12), (4, 1.0, 5)]:
        theirs = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            num_beams=width,
            num_return_sequences=2,
            length_penalty=alpha,
            early_stopping="never",
            max_new_tokens=limit,
            return_dict_in_generate=True,
            output_scores=True,
        )
        ours = BeamSearch(beams=width, n_best=2, length_penalty=alpha)(
            Wrapped(model), None, prompt=Seq(prompt), limits=[limit] * 5
        )
        flat = [h for row in ours for h in row]
        for h, ids, score in zip(flat, theirs.sequences[:, 3:].tolist(), theirs.sequences_scores.tolist(), strict=True):
            assert h.ids == (ids[: ids.index(EOS)] if EOS in ids else ids)
            assert h.score == pytest.approx(score, abs=1e-4)
