"""Loaded models write what transformers' generate writes, token for token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from weft.core.batch import Batch
from weft.core.fields import Special
from weft.core.seq import Seq
from weft.generate import BeamSearch, GreedySearch, Sampling
from weft.pretrained import load

VOCAB, END, BEGIN, LIMIT = 11, 5, 3, 12
IDS = {"pad_token_id": 0, "eos_token_id": END}
SIZES = {"d_model": 24, "vocab_size": VOCAB}
BART = {
    f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 20))
}
MODELS: dict[str, Any] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=2, n_positions=40, bos_token_id=None, **IDS)
    ),
    "t5": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(**SIZES, d_kv=6, num_heads=2, num_layers=2, d_ff=20, decoder_start_token_id=BEGIN, **IDS)
    ),
    "bart": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(
            **SIZES,
            **BART,
            max_position_embeddings=40,
            decoder_start_token_id=BEGIN,
            bos_token_id=None,
            forced_eos_token_id=None,
            **IDS,
        )
    ),
}


def written(name: str, seed: int, folder: Path) -> Any:
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, parameter in model.named_parameters():  # so that what is read decides what is written
            norm, looks = key.endswith("weight") and parameter.ndim == 1, "encoder_attn" in key or "EncDec" in key
            scale = 1.0 if norm or "shared" in key else 0.3 if parameter.ndim == 1 else 2.0 if looks else 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    model.tie_weights()
    model.eval().save_pretrained(folder)
    return model


def found(name: str, ours: Any, ids: torch.Tensor, real: torch.Tensor, search: Any, ends: tuple[int, ...] = ()) -> list[Any]:
    nowhere = Special(pad=-1, bos=-1 if name == "gpt2" else BEGIN, eos=END, unk=-1, mask=-1, cls=-1, sep=-1)
    ours.target = replace(ours.target, special=nowhere, extra_eos=ends)
    with torch.inference_mode():
        if name == "gpt2":
            return search(ours, None, prompt=Seq(ids, real), limits=[LIMIT] * len(ids))
        return search(ours, ours.memory(Batch({"source": Seq(ids, real)}, len(ids))), limits=[LIMIT] * len(ids))


@pytest.mark.parametrize("name", MODELS)
def test_greedy_and_beam_write_the_same(name: str, tmp_path: Path) -> None:
    ended, different = 0, 0
    for seed in range(4):
        theirs = written(name, seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        ids = torch.randint(6, VOCAB, (6, 7), generator=torch.Generator().manual_seed(seed))
        left = name == "gpt2"  # generate wants prompts padded on the left; BART's positions count padded slots on the left
        lengths = torch.tensor([7, 6, 5, 4, 7, 3])[:, None]
        real = torch.arange(7) >= 7 - lengths if left else torch.arange(7) < lengths
        for width, alpha in ((1, 0.0), (3, 0.0), (4, 0.7), (4, 1.5)):
            expected = theirs.generate(
                torch.where(real, ids, 0),
                attention_mask=real.long(),
                num_beams=width,
                length_penalty=alpha,
                early_stopping="never" if width > 1 else False,
                max_new_tokens=LIMIT,
                do_sample=False,
                **({} if name == "gpt2" else {"suppress_tokens": [BEGIN]}),  # weft never generates BOS
            )
            start = 7 if name == "gpt2" else 1
            wanted = [row[: row.index(END)] if END in row else row for row in expected[:, start:].tolist()]
            search = GreedySearch() if width == 1 else BeamSearch(beams=width, length_penalty=alpha)
            rows = found(name, ours, ids, real, search)
            assert [row[0].ids for row in rows] == wanted, (seed, width, alpha)
            ended += sum(row[0].finished for row in rows)
            different += len({tuple(row[0].ids) for row in rows})
    assert ended >= 5 and different >= 30  # or the comparison proves little


def cut(row: list[int], ends: tuple[int, ...]) -> list[int]:
    return next((row[:at] for at, token in enumerate(row) if token in ends), row)


@pytest.mark.parametrize("ends", [(END, 8), (END, 8, 2), (END, END)])
def test_any_of_several_eos_tokens_ends_a_text(ends: tuple[int, ...], tmp_path: Path) -> None:
    ended: set[int | None] = set()
    finished, different = 0, 0
    for seed in range(4):
        theirs = written("gpt2", seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        ids = torch.randint(6, VOCAB, (6, 7), generator=torch.Generator().manual_seed(seed))
        real = torch.arange(7) >= 7 - torch.tensor([7, 6, 5, 4, 7, 3])[:, None]
        for width, alpha in ((1, 0.0), (2, 0.0), (3, 0.0), (4, 0.7), (4, 1.5)):
            expected = theirs.generate(
                torch.where(real, ids, 0),
                attention_mask=real.long(),
                eos_token_id=sorted(set(ends)),
                num_beams=width,
                length_penalty=alpha,
                early_stopping="never" if width > 1 else False,
                max_new_tokens=LIMIT,
                do_sample=False,
            )
            search = GreedySearch() if width == 1 else BeamSearch(beams=width, length_penalty=alpha)
            rows = [row[0] for row in found("gpt2", ours, ids, real, search, ends)]
            assert [h.ids for h in rows] == [cut(row, ends) for row in expected[:, 7:].tolist()], (seed, width, alpha)
            last = [row[len(h.ids)] if h.finished else None for h, row in zip(rows, expected[:, 7:].tolist(), strict=True)]
            assert [h.end for h in rows] == last
            ended |= {h.end for h in rows}
            finished += sum(h.finished for h in rows)
            different += len({tuple(h.ids) for h in rows})
        plain = found("gpt2", ours, ids, real, Sampling(seed=seed))
        for one, two in zip(found("gpt2", ours, ids, real, Sampling(seed=seed), ends), plain, strict=True):
            assert one[0].ids == cut(two[0].ids, ends)  # the same draws, up to the first EOS
            ended |= {one[0].end}
    assert {*ends} <= ended and finished >= 20 and different >= 30, (ended, finished, different)  # or it proves little
