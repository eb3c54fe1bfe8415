"""Contexts longer than the network's positions: read in windows, as transformers' tokenizer cuts them; the best answer wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import weft
from weft.core.batch import Clock, collate
from weft.core.fields import Frame, Info, SpanField, TextField
from weft.data import encode_example
from weft.generate import GreedySearch
from weft.inference.convert import to_run
from weft.models import SpanExtractor
from weft.objectives import SpanAnswer, span
from weft.objectives.span import window_starts

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{chr(97 + i)}" for i in range(26)), "who", "where", "?"]
LENGTH = 24


def info_of(frame: Frame) -> Info:
    texts = {name: TextField(name, 40, frame=frame) for name in ("question", "context")}
    return Info({**texts, "answer": SpanField("answer", of="context")}, "context")


INFO = info_of(Frame((5,), (6,), (6,), True))


def example(question: int, context: int, answer: list[int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ids = {"question": rng.integers(7, 40, question), "context": rng.integers(7, 40, context)}
    return {**ids, "answer": np.array(answer, np.int64)}


ROWS = [example(3, 40, [33, 34], 1), example(2, 9, [0, 0], 2), example(4, 17, [], 3), example(1, 90, [88, 89], 4)]


def made(objective: SpanAnswer) -> Any:
    return collate([objective.prepare(row, None, None) for row in ROWS])  # pyright: ignore[reportArgumentType]


@pytest.fixture
def model() -> Any:
    return SpanExtractor(INFO, dim=16).eval()


def test_every_token_is_in_a_window_and_none_begins_in_vain() -> None:
    for size in range(1, 40):
        for room in range(1, 12):
            for stride in range(1, 14):
                begins = list(window_starts(size, room, stride))
                assert {i for b in begins for i in range(b, min(b + room, size))} == set(range(size))
                assert begins == [0] or begins[-2] + room < size


def test_one_window_is_the_whole(model: Any) -> None:
    whole, wide = SpanAnswer(INFO, 16), SpanAnswer(INFO, 16, window=200)
    assert wide(model, made(wide), Clock()).mean().item() == pytest.approx(whole(model, made(whole), Clock()).mean().item())
    assert wide.predict(model, made(wide), GreedySearch()) == whole.predict(model, made(whole), GreedySearch())


def test_each_window_is_a_question_of_its_own(model: Any) -> None:
    objective, whole = SpanAnswer(INFO, 16, window=20, stride=5), SpanAnswer(INFO, 16)
    total = count = 0.0
    for row in ROWS:
        room = 20 - len(row["question"]) - 3
        for begin in range(0, 1000, 5):
            part, answer = row["context"][begin : begin + room], row["answer"] - begin
            kept = answer if len(answer) and answer[0] >= 0 and answer[-1] < len(part) else answer[:0]
            instance = whole.prepare({**row, "context": part, "answer": kept}, None, None)
            assert instance is not None
            total, count = total + whole(model, collate([instance]), Clock()).mean().item(), count + 1
            if begin + room >= len(row["context"]):
                break
    batch = made(objective)
    loss = objective(model, batch, Clock())
    assert objective.counts(batch) == {"loss": count} and loss["loss"].count == count
    assert loss.mean().item() == pytest.approx(total / count, rel=1e-5)
    assert (batch["text"].seq.marks["start"].argmax(1) > 0).sum() >= 4  # the answers are in some


@pytest.mark.parametrize(("window", "stride"), [(20, 5), (20, 128), (30, 7)])
def test_the_cost_is_the_number_of_tokens(window: int, stride: int) -> None:
    objective = SpanAnswer(INFO, 16, window=window, stride=stride)
    lengths = {name: np.array([len(row[name]) for row in ROWS]) for name in ("question", "context")}
    assert int(objective.cost(lengths).sum()) == made(objective).tokens()


def test_answers_do_not_depend_on_how_many_windows_are_asked_at_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = SpanAnswer(INFO, 16, window=16, stride=4, threshold=-1000.0)
    wanted = objective.predict(model, made(objective), GreedySearch())
    monkeypatch.setattr(span, "TOKENS_PER_PASS", 3 * 16)
    found = objective.predict(model, made(objective), GreedySearch())
    assert [(p.first, p.last) for p in found] == [(p.first, p.last) for p in wanted]


def test_a_question_that_fills_the_window_is_left_out_and_refused_where_it_is_asked() -> None:
    objective, row = SpanAnswer(INFO, 16, window=6), example(3, 9, [], 0)
    assert objective.prepare(row, None, None) is None
    with pytest.raises(ValueError, match=r"has 6 tokens, which leaves no room for the context in a window of 6; shorten"):
        objective.prepare_request(row)
    assert SpanAnswer(INFO, 16, window=7).prepare_request(row) is not None


# ------------------------------------------------------------------------------------------------------- transformers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("windows") / "bert"
    sizes: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
    config = hf.BertConfig(vocab_size=len(WORDS), max_position_embeddings=LENGTH, initializer_range=0.7, **sizes)
    hf.BertForQuestionAnswering(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    hf.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def theirs(folder: Path, question: str, context: str, stride: int) -> tuple[str, float]:
    """The best answer over all windows that transformers' tokenizer makes, by the definition; and its score above none."""
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(folder)
    room = LENGTH - len(tokenizer(question)["input_ids"]) - 1
    told = tokenizer(
        question,
        context,
        max_length=LENGTH,
        truncation="only_second",
        stride=max(0, room - stride),  # theirs is how many tokens two windows share
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_tensors="pt",
        padding=True,
    )
    network = hf.BertForQuestionAnswering.from_pretrained(folder).eval()
    with torch.no_grad():
        out = network(told["input_ids"], attention_mask=told["attention_mask"], token_type_ids=told["token_type_ids"])
    best, text, none = -np.inf, "", np.inf
    for n in range(len(told["input_ids"])):
        begin, end, offsets = out.start_logits[n], out.end_logits[n], told["offset_mapping"][n].tolist()
        inside = [i for i, of in enumerate(told.sequence_ids(n)) if of == 1]
        none = min(none, float(begin[0] + end[0]))
        for i in inside:
            for j in (j for j in inside if i <= j < i + 30):
                if (score := float(begin[i] + end[j])) > best:
                    best, text = score, context[offsets[i][0] : offsets[j][1]]
    return text, best - none


@pytest.mark.parametrize(("converted", "stride"), [(False, 128), (True, 128), (False, 7)])
def test_a_published_model_answers_from_anywhere_in_a_long_context(
    folder: Path, tmp_path: Path, converted: bool, stride: int
) -> None:
    run = weft.load(to_run(folder, tmp_path / "run") if converted else folder, "cpu")
    if stride != 128:
        assert run.codec is not None
        run.objectives = {"": SpanAnswer(run.codec.info, 16, window=LENGTH, stride=stride)}
    rng = np.random.default_rng(0)
    rows = [("who ?", " ".join(rng.choice(WORDS[5:31], size))) for size in (5, 18, 19, 60, 200)]
    wanted = [theirs(folder, *row, stride) for row in rows]
    assert any(score > 0 for _, score in wanted)
    assert run.predict(rows) == [text if score > 0 else "" for text, score in wanted]
    assert run.truncated == 0
    objective: Any = run.objectives[""]
    asked = [objective.prepare_request(encode_example(run.request_format(row).codec, run.cells(row))) for row in rows]
    scores = [passage.score for passage in objective.predict(run.model, collate(asked), GreedySearch())]
    assert scores == pytest.approx([score for _, score in wanted], abs=1e-3)
