"""Looking into a trained run: what it read, wrote and looked at for a text.

H heads, T queries, S keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batch import Instance, collate
from weft.core.contracts import Classifies, Codec, Decodes, ExtractsSpans, Objective, Tags
from weft.core.example import MarkedIds, ids_of
from weft.core.fields import Field
from weft.core.outputs import Hypothesis
from weft.core.seq import Seq
from weft.data import encode_example
from weft.data.requests import encoder_field, request_cells
from weft.generate.frontier import Frontier
from weft.inspect.attention import attention
from weft.inspect.attention_page import CROSS, Example, Map, Step, attention_page
from weft.objectives.inputs import EncoderInput

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

MOST_TOKENS = 512
"""Longer sequences are not looked into: a map has a weight for every pair."""

ENCODER, DECODER, SELF, POOLING, OTHER = (
    "Encoder: input to input",
    "Decoder: output to what was written",
    "Self-attention",
    "Pooling: the whole text",
    "Other attention",
)
BEGIN, END, WHOLE = "⟨begin⟩", "⟨end⟩", "⟨whole text⟩"


def inspect_run(run: TrainedRun, texts: Sequence[str], out: str | Path, *, top: int = 5) -> Path:
    """Write what a trained run did with each text: a page (``.html``), or a picture of one text (``.png``).

    Args:
        run: A trained run, as ``weft.load`` gives it.
        texts: What to look at; a language model goes on from it.
        out: The file to write.
        top: How many candidates to show at each step.
    """
    file = Path(out)
    if file.suffix.lower() not in (".html", ".htm", ".png"):
        raise ValueError(f"{file} is neither a page nor a picture: give a name that ends in .html or .png")
    if not texts:
        raise ValueError("there is no text to look at: give at least one")
    picture = file.suffix.lower() == ".png"
    if picture and len(texts) > 1:
        raise ValueError(f"a picture shows one text, but {len(texts)} were given: give one, or write a page (.html)")
    examples = look_at(run, texts, top=top)
    if not picture:
        return attention_page(examples, file, f"What the model looked at: {run.name}")
    from weft.inspect.attention_picture import attention_picture

    return attention_picture(examples[0], file, run.name)


def look_at(run: TrainedRun, texts: Sequence[str], *, top: int = 5) -> list[Example]:
    """For each text what the run reads, looks at and answers, with the search of its recipe."""
    model, codecs = run.model, [run.codec if run.pair_format is None else run.request_format(text).codec for text in texts]
    for number, (codec, text) in enumerate(zip(codecs, texts, strict=True), 1):
        width = len(_framed(model, codec, text))
        if width > MOST_TOKENS:
            raise ValueError(
                f"text {number} has {width} tokens, but at most {MOST_TOKENS} can be looked into: give a shorter one"
            )
    if Decodes not in model.provides():
        return _answered(run, texts, [look(model, c, text, top=top) for c, text in zip(codecs, texts, strict=True)])
    found = []
    for codec, text, row in zip(codecs, texts, run.hypotheses(texts), strict=True):
        others = [(run.decode(h), h.score) for h in row] if len(row) > 1 else []
        found.append(replace(look(model, codec, text, row[0], top=top, begin=run.start_ids), candidates=others))
    return _answered(run, texts, found)


def _answered(run: TrainedRun, texts: Sequence[str], examples: list[Example]) -> list[Example]:
    """With what the run predicts of each text: its answer, unless it writes one, and the classes, likeliest first."""
    provided, objective = set(run.model.provides()), next(iter(run.objectives.values()), None)
    writes = Decodes in provided
    if objective is None or not {Classifies, Tags, ExtractsSpans} & provided:
        return examples
    if writes and type(objective).probabilities is Objective.probabilities:  # it was trained to write, and has done so
        return examples
    found: list[Example] = []
    for example, answer in zip(examples, run.predictions(texts), strict=True):
        classes = sorted(answer.probabilities.items(), key=lambda item: -item[1]) or example.classes
        found.append(replace(example, output=example.output if writes else answer.text, classes=classes))
    return found


@torch.inference_mode()
def look(
    model: Any,
    codec: Codec,
    text: str,
    answer: Hypothesis | Sequence[int] | None = None,
    *,
    top: int = 5,
    begin: tuple[int, ...] | None = None,
) -> Example:
    """What a model reads, looks at and predicts for a text.

    Every map is exact: it is recorded in one full pass over the text and the answer, as in training.

    Args:
        model: A structure.
        codec: Between texts and its ids.
        text: What it is given.
        answer: What it wrote, for a structure that decodes.
        top: How many candidates to show at each step.
        begin: Ids that what it writes begins with, before its text where it goes on from one; None = the begin mark.
    """
    if top < 1:
        raise ValueError(f"{top} candidates cannot be shown: give at least 1")
    trained, provided = model.training, model.provides()
    model.train(False)
    try:
        if Decodes in provided:
            example = _written(model, codec, text, [] if answer is None else answer, top, begin)
        else:
            example = _read(model, codec, text)
        if Classifies in provided:
            example = replace(example, **_classes(model, codec, text, named=Decodes not in provided))
    finally:
        model.train(trained)
    return example


def _read(model: Any, codec: Codec, text: str) -> Example:
    """A text that is only read, or several with tabs between them."""
    given = _read_fields(model, codec)[0]
    framed = _framed(model, codec, text)
    ids = ids_of(framed).tolist()
    tokens = _tokens(codec, given, ids)
    x = _batch(model, text=framed)["text"]
    with attention(model) as maps:
        model.features(x) if Classifies in model.provides() else model.encode(x)
    found: dict[str, Map] = {}
    for name, weight_HTS in _calls(maps):
        rows, columns = weight_HTS.shape[1:]
        if (rows, columns) == (len(ids), len(ids)):
            found[name] = Map(weight_HTS, tokens, tokens, SELF, "Reading")
        elif (rows, columns) == (1, len(ids)):
            found[name] = Map(weight_HTS, [WHOLE], tokens, POOLING, "Reading")
        else:
            found[name] = _numbered(weight_HTS)
    return Example(tokens, (), found, input=text, output="")


def _written(
    model: Any, codec: Codec, text: str, answer: Hypothesis | Sequence[int], top: int, begin: tuple[int, ...] | None
) -> Example:
    """A text that was answered, or gone on from."""
    known = answer if isinstance(answer, Hypothesis) else Hypothesis(list(map(int, answer)), 0.0, 0.0)
    target, given = model.target, _read_fields(model, codec)[0]
    alone = given.name == target.name
    prompt = ids_of(encode_example(codec, {given.name: text})[given.name]).tolist() if alone else []
    # Where nothing stands before a text, as GPT-2's tokenizer has it, an empty one still begins with the begin mark.
    first = () if begin == () and prompt else begin or ((target.special.bos,) if alone else target.decoder_prefix())
    start, ids, finished, notes = [*first, *prompt], known.ids, known.finished, []
    if (room := MOST_TOKENS - len(start)) < len(ids):
        notes.append(f"Only the first {room} of {len(ids)} written tokens are shown.")
        ids, finished = ids[:room], False
    # An unfinished answer ends with its last token: what might have come after it was never asked.
    said = [*start[1:], *ids, *([target.special.eos if known.end is None else known.end] if finished else [])]
    read = [*start, *ids][: len(said)]
    written, seen = _tokens(codec, target, said), _tokens(codec, target, read)
    if first and read and read[0] in (target.special.bos, target.decoder_start):
        seen[0] = BEGIN  # GPT-2's is its end mark too
    if finished and written:
        written[-1] = END  # whichever it was of several
    memory, source, found = None, [] if alone else ids_of(_framed(model, codec, text)).tolist(), dict[str, Map]()
    # One more place of padding tells a map over the input from one over the output where both are equally long.
    width = len(source) + (len(source) == len(read))
    tokens = _tokens(codec, given, prompt if alone else source)
    if not alone:
        batch = _batch(model, **{given.name: _framed(model, codec, text)})
        batch.fields[given.name] = _padded(batch[given.name], width)
        with attention(model) as maps:
            memory = model.memory(batch)
        for name, weight_HTS in _calls(maps):
            own = weight_HTS.shape[1:] == (width, width)
            cut_HTS = weight_HTS[:, : len(source), : len(source)]
            found[name] = Map(cut_HTS, tokens, tokens, ENCODER, "Reading") if own else _numbered(weight_HTS)
    if not read:  # a search that was allowed no token
        return Example(tokens, written, found, input=text, output="", notes=["Nothing was written."])
    with attention(model) as maps:
        hidden = model.decode(_batch(model, ids=read)["ids"], memory).hidden
    for name, weight_HTS in _calls(maps):
        rows, columns = weight_HTS.shape[1:]
        if (rows, columns) == (len(read), len(read)):
            found[name] = Map(weight_HTS, written, seen, SELF, "Predicting") if alone else Map(weight_HTS, written, seen, DECODER)
        elif (rows, columns) == (len(read), width) and not alone:
            found[name] = Map(weight_HTS[..., : len(source)], written, tokens, CROSS)
        else:
            found[name] = _numbered(weight_HTS)
    # What was asked for first: where the decoder looked.
    found = dict(sorted(found.items(), key=lambda item: item[1].kind != CROSS))
    steps = _steps(codec, target, Frontier(model, hidden.data[0], None).logprobs(), said, top, len(start) - 1)
    output = codec.decode(target.name, ids)
    return Example(tokens, written, found, input=text, output=output, steps=steps, notes=notes)


def _steps(codec: Codec, target: Field, logp_TV: Tensor, said: Sequence[int], top: int, given: int) -> list[Step]:
    """The likeliest tokens at every step; of the first ``given`` nothing was chosen."""
    best, steps = logp_TV.topk(min(top, logp_TV.shape[1]), -1), []
    for t, token in enumerate(said):
        own = logp_TV[t, token]
        likely = [(i, p) for i, p in zip(best.indices[t].tolist(), best.values[t].exp().tolist(), strict=True) if p > 0]
        names = _tokens(codec, target, [i for i, _ in likely])
        candidates = [(name, p) for name, (_, p) in zip(names, likely, strict=True)]
        places = [i for i, _ in likely]
        rank = places.index(token) + 1 if token in places else int((logp_TV[t] > own).sum()) + 1
        steps.append(Step(_tokens(codec, target, [token])[0], float(own.exp()), rank, candidates, t < given))
    return steps


def _classes(model: Any, codec: Codec, text: str, *, named: bool) -> dict[str, Any]:
    """The classes of a text with their probabilities, likeliest first; ``named``: the likeliest is also the answer."""
    label, text_x = codec.info["label"], _batch(model, text=_framed(model, codec, text))["text"]
    if label.kind == "number":
        return {}
    names, logit_V = label.labels, model.classifier(model.features(text_x))[0].float()
    p_V = logit_V.sigmoid() if label.kind == "labels" else logit_V.softmax(-1)
    order = p_V.argsort(descending=True, stable=True).tolist()
    classes = [(names[n] if n < len(names) else str(n), float(p_V[n])) for n in order]
    return {"classes": classes, "output": classes[0][0]} if named else {"classes": classes}


# ---------------------------------------------------------------------------------------------------------------- pieces


def _read_fields(model: Any, codec: Codec) -> list[Field]:
    """The fields that a text for this model belongs to."""
    if Decodes in model.provides():
        return [encoder_field(model, codec.info) or model.target]
    return codec.info.input_texts()


def _framed(model: Any, codec: Codec, text: str) -> np.ndarray | MarkedIds:
    """The ids that the model reads, with all that stands around a text, or between two."""
    fields = _read_fields(model, codec)
    row = {fields[0].name: text} if len(fields) == 1 else request_cells(codec.info, text)
    example = encode_example(codec, row)
    if Decodes in model.provides():
        return fields[0].frame.around([example[fields[0].name]])
    return EncoderInput(codec.info)(example)


def _tokens(codec: Codec, field: Field, ids: Sequence[int]) -> list[str]:
    marks = {field.special.bos: BEGIN, field.special.eos: END}
    names = codec.tokenizers[field.space].tokens(list(ids))
    return [marks.get(number, name) for number, name in zip(ids, names, strict=True)]


def _batch(model: Any, **rows: Sequence[int] | np.ndarray | MarkedIds) -> Any:
    instance = Instance({name: ids if isinstance(ids, MarkedIds) else np.array(ids, np.int64) for name, ids in rows.items()})
    return collate([instance]).to(next(model.parameters()).device)


def _padded(x: Seq, width: int) -> Seq:
    """The sequence with padding on the right up to ``width``."""
    if x.width == width:
        return x
    more = x.data.new_zeros(x.rows, width - x.width)
    return replace(x, data=torch.cat([x.data, more], 1), mask=torch.cat([x.real(), more.bool()], 1))


def _calls(maps: Mapping[str, list[Tensor]]) -> list[tuple[str, Tensor]]:
    """The recorded weights of the only row, H x T x S, by name; a module that attends several times gives several."""
    return [
        (f"{name or 'attention'} ({n})" if len(calls) > 1 else name or "attention", weight_BHTS[0].float().cpu())
        for name, calls in maps.items()
        for n, weight_BHTS in enumerate(calls, 1)
    ]


def _numbered(weight_HTS: Tensor) -> Map:
    """A map over something else than the tokens, such as windows or slots: its places have numbers only."""
    rows, columns = (list(map(str, range(1, n + 1))) for n in weight_HTS.shape[1:])
    return Map(weight_HTS, rows, columns, OTHER, "At place")
