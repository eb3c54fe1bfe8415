"""What weft writes with a published folder is what transformers writes with it: begin, end, and as far as there are positions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers as hf
from tokenizers import decoders, models, pre_tokenizers, processors

import weft
from weft.evaluate import Evaluation
from weft.generate import BeamSearch, GreedySearch, Sampling
from weft.inference.convert import to_run
from weft.inference.prompting import log_probabilities
from weft.inspect.inspection import BOS, EOS, inspect_texts

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
END, BEGIN, PAD = 256, 257, 258
GPT: dict[str, Any] = {"vocab_size": 259, "n_embd": 24, "n_layer": 2, "n_head": 2}
BART: dict[str, Any] = {"vocab_size": 259, "d_model": 24, "max_position_embeddings": 40}
BART |= {
    f"{side}_{part}": n for side in ("encoder", "decoder") for part, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 20))
}
TEXTS = ["ab", "Hello world", " x"]


def made(model: Any, folder: Path, frame: str = "$A", seed: int = 0) -> Any:
    """A model with weights that decide what is written, and a tokenizer of bytes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            vectors = any(part in name for part in ("shared", "wte", "wpe", "embed_positions"))
            large = vectors or ("weight" in name and tensor.ndim == 1)
            scale = 1.0 if large else 2.0 if "encoder_attn" in name else 0.3 if tensor.ndim == 1 else 0.5
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale)
    model.tie_weights()
    model.eval().save_pretrained(folder)
    names = [*ALPHABET, "<|endoftext|>", "<s>", "<pad>"]
    inner: Any = tokenizers.Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens(names[256:])
    inner.post_processor = processors.TemplateProcessing(single=frame, special_tokens=[("<s>", BEGIN), ("<|endoftext|>", END)])
    inner.save(str(folder / "tokenizer.json"))
    return model


def gpt(folder: Path, positions: int = 60, frame: str = "$A", **config: Any) -> Any:
    config = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD, **config}
    return made(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, n_positions=positions, **config)), folder, frame)


def bart(folder: Path, **config: Any) -> Any:
    config = {"bos_token_id": BEGIN, "eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": END, **config}
    return made(hf.BartForConditionalGeneration(hf.BartConfig(**BART, **config)), folder, "$A <|endoftext|>")


def theirs(model: Any, folder: Path, text: str, **options: Any) -> list[int]:
    """The ids that transformers generates, without the prompt and suppressed tokens (weft never generates <s> and <pad>)."""
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    told: Any = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    never = {"suppress_tokens": [BEGIN, PAD]} | options
    ids = model.generate(**told, do_sample=False, **never)[0].tolist()
    return ids if model.config.is_encoder_decoder else ids[told["input_ids"].shape[1] :]


def ours(run: weft.TrainedRun, text: str, length: int) -> list[int]:
    return next(run.hypotheses([text], GreedySearch(max_length=length)))[0].ids


@pytest.mark.parametrize("frame", ["$A", "<s> $A"])
def test_a_language_model_begins_as_its_tokenizer_does(frame: str, tmp_path: Path) -> None:
    model = gpt(tmp_path / "gpt", frame=frame)
    run, again = weft.load(tmp_path / "gpt", "cpu"), weft.load(to_run(tmp_path / "gpt", tmp_path / "run"), "cpu")
    for text in TEXTS:
        wanted = theirs(model, tmp_path / "gpt", text, max_new_tokens=12)
        assert ours(run, text, 12) == ours(again, text, 12) == [i for i in wanted if i != END]
    assert len(ours(run, "", 5)) > 0  # an empty one begins with BOS


def test_a_score_is_that_of_the_text_as_the_tokenizer_gives_it(tmp_path: Path) -> None:
    model = gpt(tmp_path)
    run = weft.load(tmp_path, "cpu")
    found, tokens = log_probabilities(run, [("ab c", " good"), ("", " no")])
    codec: Any = run.codec
    for pair, (before, answer) in enumerate((("ab c", " good"), ("", " no"))):
        first, last = codec.encode("text", before).tolist() or [END], codec.encode("text", answer).tolist()
        with torch.no_grad():
            logp = model(torch.tensor([first + last])).logits[0].log_softmax(-1)
        wanted = sum(float(logp[len(first) - 1 + i, token]) for i, token in enumerate(last))
        assert found[pair] == pytest.approx(wanted, abs=1e-3) and tokens[pair] == len(last)


SEARCHES: dict[str, Callable[[], Any]] = {"greedy": GreedySearch, "beam": lambda: BeamSearch(beams=3), "sample": Sampling}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_stops_where_the_positions_end(name: str, tmp_path: Path) -> None:
    model = gpt(tmp_path / "gpt", positions=12, eos_token_id=None, bos_token_id=None)
    run = weft.load(tmp_path / "gpt", "cpu")
    model.generation_config.eos_token_id = None
    codec: Any = run.codec
    run.model.target = codec.info["text"]
    texts = ["abcd", "a", "abcdefghijkl"]
    found = [row[0] for row in run.hypotheses(texts, SEARCHES[name]())]
    for text, hypothesis in zip(texts, found, strict=True):
        assert len(hypothesis.ids) == 12 - len(text) + 1 or hypothesis.finished
        if name == "greedy":
            wanted = theirs(model, tmp_path / "gpt", text, max_new_tokens=12 - len(text) + 1, eos_token_id=END)
            assert hypothesis.ids == [i for i in wanted if i != END]
    with pytest.raises(ValueError, match="line 2 has 13 tokens, but the model has 12 positions; pass a shorter text"):
        run.generate(["a", "a" * 13], SEARCHES[name]())


def test_a_decoder_stops_where_its_positions_end(tmp_path: Path) -> None:
    bart(tmp_path, max_length=500)
    run = weft.load(tmp_path, "cpu")
    assert all(len(row[0].ids) <= 40 for row in run.hypotheses(TEXTS, GreedySearch(max_length=300)))


def change(folder: Path, file: str, drop: tuple[str, ...] = (), **more: Any) -> None:
    content = json.loads((folder / file).read_text()) | more
    (folder / file).write_text(json.dumps({key: value for key, value in content.items() if key not in drop}))


GENERATED = ("decoder_start_token_id", "forced_bos_token_id", "eos_token_id")


@pytest.mark.parametrize("source", ["both", "config.json", "generation_config.json", "different"])
def test_begin_and_end_are_those_of_the_generation_config(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "bart"
    model = bart(folder, decoder_start_token_id=70)
    model.generation_config.forced_bos_token_id, model.generation_config.forced_eos_token_id = 71, None
    once = theirs(model, folder, "Hello", max_new_tokens=20)
    end = next(i for i in reversed(once[4:]) if i not in once[:4] and i < END)  # it writes this one
    model.generation_config.eos_token_id = [9999, end]
    model.generation_config.save_pretrained(folder)
    change(folder, "config.json", eos_token_id=[9999, end])
    if source == "config.json":
        (folder / "generation_config.json").unlink()
        change(folder, "config.json", forced_bos_token_id=71, decoder_start_token_id=70)
    if source == "generation_config.json":
        change(folder, "config.json", drop=GENERATED)
    if source == "different":
        change(folder, "config.json", decoder_start_token_id=1, eos_token_id=2, forced_bos_token_id=3)
    run, again = weft.load(folder, "cpu"), weft.load(to_run(folder, tmp_path / "run"), "cpu")
    for text in TEXTS:
        wanted = theirs(model, folder, text, max_new_tokens=20)
        assert wanted[:2] == [70, 71]
        written = wanted[2 : wanted.index(end, 2) if end in wanted[2:] else None]
        assert ours(run, text, 19) == ours(again, text, 19) == written


def test_a_language_model_ends_with_the_id_of_its_config(tmp_path: Path) -> None:
    model = gpt(tmp_path / "first")
    once = theirs(model, tmp_path / "first", "Hello", max_new_tokens=20)
    end = next(i for i in reversed(once[2:]) if i not in once[:2] and i < END)
    model = gpt(tmp_path / "gpt", eos_token_id=end)
    for gone in (None, "generation_config.json"):
        if gone:
            (tmp_path / "gpt" / gone).unlink()
        run = weft.load(tmp_path / "gpt", "cpu")
        wanted = theirs(model, tmp_path / "gpt", "Hello", max_new_tokens=20)
        assert wanted[-1] == end and ours(run, "Hello", 20) == wanted[:-1]


@pytest.mark.parametrize("source", ["config.json", "generation_config.json"])
def test_a_text_ends_with_any_of_several_eos_tokens(source: str, tmp_path: Path) -> None:
    texts = ["Hello", "ab", " x", "world", "q", "zz", "good film", "no"]
    first = gpt(tmp_path / "first")
    often = Counter(i for text in texts for i in {*theirs(first, tmp_path / "first", text, max_new_tokens=30)} if i < END)
    two = [i for i, _ in often.most_common(2)]
    model = gpt(tmp_path / "gpt", eos_token_id=two, bos_token_id=two[1])  # an EOS may be another special token as well
    if source == "config.json":
        (tmp_path / "gpt" / "generation_config.json").unlink()
    else:
        change(tmp_path / "gpt", "config.json", drop=("eos_token_id",))
    ends, different = Counter[int | None](), set[tuple[int, ...]]()
    for run in (weft.load(tmp_path / "gpt", "cpu"), weft.load(to_run(tmp_path / "gpt", tmp_path / "run"), "cpu")):
        for text in texts:
            options: dict[str, Any] = {"suppress_tokens": [PAD], "max_new_tokens": 30, "eos_token_id": two}
            wanted = theirs(model, tmp_path / "gpt", text, **options)
            found = next(run.hypotheses([text], GreedySearch(max_length=30)))[0]
            assert [*found.ids, *([found.end] if found.finished else [])] == wanted
            ends[found.end] += 1
            different.add((*found.ids, -1))
            if found.end is not None:
                run.evaluate = partial(Evaluation, search=partial(GreedySearch, max_length=30))
                (example,) = inspect_texts(run, [text])
                assert example.target[-1] == EOS
                assert example.steps[-1].probability == pytest.approx(math.exp(found.steps[-1]), rel=1e-4)
            beams = {"num_beams": 3, "length_penalty": 0.0, "early_stopping": "never"}
            wanted = theirs(model, tmp_path / "gpt", text, **options, **beams)
            found = next(run.hypotheses([text], BeamSearch(beams=3, max_length=30)))[0]
            assert [*found.ids, *([found.end] if found.finished else [])] == wanted
            ends[found.end] += 1
            different.add(tuple(found.ids))
    assert all(ends[i] >= 4 for i in two) and len(different) >= 5, (ends, different)  # or the comparison proves little


@pytest.mark.parametrize("frame", ["$A", "<s> $A"])
def test_inspected_tokens_and_probabilities_equal_those_of_transformers(frame: str, tmp_path: Path) -> None:
    model = gpt(tmp_path / "gpt", frame=frame)
    run, again = weft.load(tmp_path / "gpt", "cpu"), weft.load(to_run(tmp_path / "gpt", tmp_path / "run"), "cpu")
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "gpt" / "tokenizer.json"))
    run.evaluate = again.evaluate = partial(Evaluation, search=partial(GreedySearch, max_length=5))
    for text in TEXTS:
        for opened in (run, again):
            (example,) = inspect_texts(opened, [text])
            given: list[int] = tokenizer(text)["input_ids"]  # pyright: ignore[reportAssignmentType]
            ids = given + next(opened.hypotheses([text]))[0].ids
            read = ids[:-1] if EOS not in example.target else ids
            seen = {tuple(m.keys) for m in example.named_maps().values()}
            assert seen == {tuple(opened.codec.tokenizers["text"].tokens(read))}
            with torch.no_grad():
                share = model(torch.tensor([read])).logits[0].softmax(-1)
            generated = [*ids, END][1 : len(read) + 1]
            assert len(example.steps) == len(generated)
            for t, (step, token) in enumerate(zip(example.steps, generated, strict=True)):
                assert step.forced == (t < len(given) - 1)
                assert step.probability == pytest.approx(float(share[t, token]), abs=1e-5)
    (empty,) = inspect_texts(run, [""])
    assert {m.keys[0] for m in empty.named_maps().values()} == {BOS if frame == "$A" else "<s>"}


def test_forced_decoder_tokens_are_marked_as_forced(tmp_path: Path) -> None:
    bart(tmp_path, decoder_start_token_id=70)
    change(tmp_path, "generation_config.json", forced_bos_token_id=71)
    run = weft.load(tmp_path, "cpu")
    run.evaluate = partial(Evaluation, search=partial(GreedySearch, max_length=4))
    (example,) = inspect_texts(run, ["Hello"])
    names = run.codec.tokenizers["text"].tokens([71, *next(run.hypotheses(["Hello"]))[0].ids])
    assert list(example.target)[: len(names)] == names
    assert [step.forced for step in example.steps] == [True, *[False] * (len(example.steps) - 1)]
