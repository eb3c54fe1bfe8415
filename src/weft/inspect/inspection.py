"""Inspect the forward pass of a trained run on given texts: attention weights, token and class probabilities.

Shape suffixes: H heads, T queries, S keys, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.batch import Instance, collate
from weft.core.contracts import Classifies, Codec, Decodes, ExtractsSpans, Objective, Structure, Tags
from weft.core.example import MarkedIds, ids_of
from weft.core.fields import ClassField, LabelsField, TextField
from weft.core.outputs import Hypothesis
from weft.core.seq import Seq
from weft.data import encode_example
from weft.data.requests import encoder_field, request_cells
from weft.generate.frontier import Frontier
from weft.inspect.attention import attention
from weft.inspect.attention_page import CROSS, AttentionExample, AttentionMap, DecodingStep, attention_page
from weft.objectives.inputs import EncoderInput

if TYPE_CHECKING:
    from weft.inference.trained_run import TrainedRun

MAX_TOKENS = 512
"""Maximum number of tokens of a text or an output: an attention map has a weight for every pair of tokens."""

ENCODER, DECODER, SELF, POOLING, OTHER = (
    "Encoder self-attention",
    "Decoder self-attention",
    "Self-attention",
    "Attention pooling",
    "Other attention",
)
"""Groups of attention maps, besides ``CROSS``."""
BOS, EOS, POOLED = "⟨bos⟩", "⟨eos⟩", "⟨pooled⟩"
"""Tokens as shown: begin and end of a sequence, and the query of attention pooling."""


def inspect_run(run: TrainedRun, texts: Sequence[str], out: str | Path, *, top: int = 5) -> Path:
    """Write the forward pass of a trained run on each text as a page (``.html``), or that of one text as an image (``.png``).

    Args:
        run: A trained run, from ``weft.load``.
        texts: Input texts; a language model continues them.
        out: The file to write.
        top: Number of most probable tokens to show at each step.
    """
    file = Path(out)
    if file.suffix.lower() not in (".html", ".htm", ".png"):
        raise ValueError(f"{file} has an unknown suffix; pass a file name that ends in .html or .png")
    if not texts:
        raise ValueError("got no text to inspect; pass at least one")
    image = file.suffix.lower() == ".png"
    if image and len(texts) > 1:
        raise ValueError(f"an image shows one text, got {len(texts)}; pass one text, or write a page (.html)")
    examples = inspect_texts(run, texts, top=top)
    if not image:
        return attention_page(examples, file, f"Attention weights: {run.name}")
    from weft.inspect.attention_plot import plot_attention

    return plot_attention(examples[0], file, run.name)


def inspect_texts(run: TrainedRun, texts: Sequence[str], *, top: int = 5) -> list[AttentionExample]:
    """Run the model on each text, with the search of its recipe; return attention weights, token and class probabilities.

    Args:
        run: A trained run, from ``weft.load``.
        texts: Input texts; a language model continues them.
        top: Number of most probable tokens at each step.
    """
    model, codecs = run.model, [run.codec if run.pair_format is None else run.request_format(text).codec for text in texts]
    for number, (codec, text) in enumerate(zip(codecs, texts, strict=True), 1):
        length = len(encoder_input(model, codec, text))
        if length > MAX_TOKENS:
            raise ValueError(f"text {number} has {length} tokens; at most {MAX_TOKENS} can be inspected, pass a shorter text")
    if Decodes not in model.provides():
        return _add_predictions(
            run, texts, [inspect_text(model, c, text, top=top) for c, text in zip(codecs, texts, strict=True)]
        )
    found = []
    for codec, text, hypotheses in zip(codecs, texts, run.hypotheses(texts), strict=True):
        others = [(run.decode(h), h.score) for h in hypotheses] if len(hypotheses) > 1 else []
        example = inspect_text(model, codec, text, hypotheses[0], top=top, start_ids=run.start_ids)
        found.append(replace(example, candidates=others))
    return _add_predictions(run, texts, found)


def _add_predictions(run: TrainedRun, texts: Sequence[str], examples: list[AttentionExample]) -> list[AttentionExample]:
    """Add the prediction of each text, unless the model generated one, and its class probabilities, most probable first."""
    provided, objective = set(run.model.provides()), next(iter(run.objectives.values()), None)
    decodes = Decodes in provided
    if objective is None or not {Classifies, Tags, ExtractsSpans} & provided:
        return examples
    if type(objective).predict is Objective.predict:  # of the first of several sources
        return examples
    if decodes and type(objective).probabilities is Objective.probabilities:  # trained for generation alone
        return examples
    found: list[AttentionExample] = []
    for example, prediction in zip(examples, run.predictions(texts), strict=True):
        classes = sorted(prediction.probabilities.items(), key=lambda item: -item[1]) or example.classes
        found.append(replace(example, output=example.output if decodes else prediction.text, classes=classes))
    return found


@torch.inference_mode()
def inspect_text(
    model: Structure,
    codec: Codec,
    text: str,
    output: Hypothesis | Sequence[int] | None = None,
    *,
    top: int = 5,
    start_ids: tuple[int, ...] | None = None,
) -> AttentionExample:
    """Run a model on one text and its output; return attention weights, token and class probabilities.

    All weights are exact: they are recorded in one forward pass over text and output (teacher forcing), in evaluation mode.

    Args:
        model: A structure.
        codec: Fields and tokenizers of the model.
        text: The input text.
        output: What a decoder generated: a hypothesis, or its token ids.
        top: Number of most probable tokens at each step.
        start_ids: Ids that the decoder starts with, before the prompt of a language model; None = BOS.
    """
    if top < 1:
        raise ValueError(f"top is {top}; must be at least 1")
    was_training, provided = model.training, model.provides()
    model.train(False)
    try:
        if Decodes in provided:
            example = _inspect_decoder(model, codec, text, [] if output is None else output, top, start_ids)
        else:
            example = _inspect_encoder(model, codec, text)
        if Classifies in provided:
            example = replace(example, **_classes(model, codec, text, is_output=Decodes not in provided))
    finally:
        model.train(was_training)
    return example


def _inspect_encoder(model: Any, codec: Codec, text: str) -> AttentionExample:
    """The example of a model without a decoder."""
    field, encoded = input_fields(model, codec)[0], encoder_input(model, codec, text)
    ids = ids_of(encoded).tolist()
    tokens = token_names(codec, field, ids)
    x = _batch(model, text=encoded)["text"]
    with attention(model) as maps:
        model.features(x) if Classifies in model.provides() else model.encode(x)
    found: dict[str, AttentionMap] = {}
    for name, weight_HTS in _calls(maps):
        queries, keys = weight_HTS.shape[1:]
        if (queries, keys) == (len(ids), len(ids)):
            found[name] = AttentionMap(weight_HTS, tokens, tokens, SELF, "Encoding")
        elif (queries, keys) == (1, len(ids)):
            found[name] = AttentionMap(weight_HTS, [POOLED], tokens, POOLING, "Pooling")
        else:
            found[name] = _numbered(weight_HTS)
    return AttentionExample(tokens, (), found, input=text, output="")


class DecoderPass(NamedTuple):
    """Ids of a decoder's forward pass with teacher forcing.

    Args:
        inputs: Ids that the decoder is fed with.
        targets: Ids that it predicts, one for each input.
        input_tokens: The inputs as tokens.
        target_tokens: The targets as tokens.
        output: Ids of the output, without prompt and EOS.
        forced: Number of targets that are part of the prompt.
        prompt: Ids of the prompt, without those that the decoder starts with.
        notes: A remark if the output is truncated.
    """

    inputs: list[int]
    targets: list[int]
    input_tokens: list[str]
    target_tokens: list[str]
    output: list[int]
    forced: int
    prompt: list[int]
    notes: list[str]


def decoder_pass(
    model: Any, codec: Codec, text: str, output: Hypothesis, start_ids: tuple[int, ...] | None = None
) -> DecoderPass:
    """Return inputs and targets of the decoder for its output for a text.

    Args:
        model: A structure with a decoder.
        codec: Fields and tokenizers of the model.
        text: The input text; a language model continues it.
        output: What the decoder generated.
        start_ids: Ids that the decoder starts with, before the prompt of a language model; None = BOS.
    """
    field, prompt = model.target, list[int]()
    if decoder_only := input_fields(model, codec)[0].name == field.name:
        prompt = ids_of(encode_example(codec, {field.name: text})[field.name]).tolist()
    # a tokenizer that adds no BOS, such as that of GPT-2: an empty prompt still starts with BOS
    default = (field.special.bos,) if decoder_only else field.decoder_prefix()
    first = () if start_ids == () and prompt else start_ids or default
    start, ids, finished, notes = [*first, *prompt], output.ids, output.finished, []
    if (room := MAX_TOKENS - len(start)) < len(ids):
        notes.append(f"Only the first {room} of {len(ids)} generated tokens are shown.")
        ids, finished = ids[:room], False
    # an unfinished output ends with its last token: the model was not run on it
    targets = [*start[1:], *ids, *([field.special.eos if output.end is None else output.end] if finished else [])]
    inputs = [*start, *ids][: len(targets)]
    target_tokens, input_tokens = token_names(codec, field, targets), token_names(codec, field, inputs)
    if first and inputs and inputs[0] in (field.special.bos, field.decoder_start):
        input_tokens[0] = BOS  # in GPT-2, BOS and EOS have the same id
    if finished and target_tokens:
        target_tokens[-1] = EOS  # any of several EOS ids
    return DecoderPass(inputs, targets, input_tokens, target_tokens, list(ids), len(start) - 1, prompt, notes)


def _inspect_decoder(
    model: Any, codec: Codec, text: str, output: Hypothesis | Sequence[int], top: int, start_ids: tuple[int, ...] | None
) -> AttentionExample:
    """The example of a language model or an encoder-decoder."""
    hypothesis = output if isinstance(output, Hypothesis) else Hypothesis(list(map(int, output)), 0.0, 0.0)
    target, field = model.target, input_fields(model, codec)[0]
    decoder_only = field.name == target.name
    done = decoder_pass(model, codec, text, hypothesis, start_ids)
    source = [] if decoder_only else ids_of(encoder_input(model, codec, text)).tolist()
    # one more padded position tells maps over the source from maps over the target, where both have the same length
    width = len(source) + (len(source) == len(done.inputs))
    tokens, memory, found = token_names(codec, field, done.prompt if decoder_only else source), None, dict[str, AttentionMap]()
    if not decoder_only:
        memory, found = _encode(model, codec, text, tokens, width)
    if not done.inputs:  # a search with max_length 0
        return AttentionExample(tokens, done.target_tokens, found, input=text, output="", notes=["No token was generated."])
    with attention(model) as maps:
        hidden = model.decode(_batch(model, ids=done.inputs)["ids"], memory).hidden
    for name, weight_HTS in _calls(maps):
        queries, keys = weight_HTS.shape[1:]
        if (queries, keys) == (len(done.inputs), len(done.inputs)):
            kind, action = (SELF, "Predicting") if decoder_only else (DECODER, "Generating")
            found[name] = AttentionMap(weight_HTS, done.target_tokens, done.input_tokens, kind, action)
        elif (queries, keys) == (len(done.inputs), width) and not decoder_only:
            found[name] = AttentionMap(weight_HTS[..., : len(source)], done.target_tokens, tokens, CROSS)
        else:
            found[name] = _numbered(weight_HTS)
    found = dict(sorted(found.items(), key=lambda item: item[1].kind != CROSS))  # cross-attention first
    steps = _steps(codec, target, Frontier(model, hidden.data[0], None).logprobs(), done, top)
    decoded = codec.decode(target.name, done.output)
    return AttentionExample(tokens, done.target_tokens, found, input=text, output=decoded, steps=steps, notes=done.notes)


def _encode(model: Any, codec: Codec, text: str, tokens: Sequence[str], width: int) -> tuple[Any, dict[str, AttentionMap]]:
    """Encode the source padded to ``width``; return the memory of the decoder, and the attention maps of the encoder."""
    field = input_fields(model, codec)[0]
    batch = _batch(model, **{field.name: encoder_input(model, codec, text)})
    batch.fields[field.name] = _padded(batch[field.name], width)
    with attention(model) as maps:
        memory = model.memory(batch)
    found: dict[str, AttentionMap] = {}
    for name, weight_HTS in _calls(maps):
        real_HTS = weight_HTS[:, : len(tokens), : len(tokens)]
        over_source = weight_HTS.shape[1:] == (width, width)
        found[name] = AttentionMap(real_HTS, tokens, tokens, ENCODER, "Encoding") if over_source else _numbered(weight_HTS)
    return memory, found


def _steps(codec: Codec, target: TextField, logp_TV: Tensor, done: DecoderPass, top: int) -> list[DecodingStep]:
    """Return probability, rank and the most probable tokens for each target."""
    best, steps = logp_TV.topk(min(top, logp_TV.shape[1]), -1), []
    for t, token in enumerate(done.targets):
        own = logp_TV[t, token]
        likely = [(i, p) for i, p in zip(best.indices[t].tolist(), best.values[t].exp().tolist(), strict=True) if p > 0]
        ids = [i for i, _ in likely]
        candidates = [(name, p) for name, (_, p) in zip(token_names(codec, target, ids), likely, strict=True)]
        rank = ids.index(token) + 1 if token in ids else int((logp_TV[t] > own).sum()) + 1
        steps.append(DecodingStep(token_names(codec, target, [token])[0], float(own.exp()), rank, candidates, t < done.forced))
    return steps


def _classes(model: Any, codec: Codec, text: str, *, is_output: bool) -> dict[str, Any]:
    """Class probabilities of a text, most probable first; with ``is_output`` the most probable class is the output too."""
    label, text_x = codec.info["label"], _batch(model, text=encoder_input(model, codec, text))["text"]
    if not isinstance(label, ClassField):
        return {}
    logit_V = model.classifier(model.features(text_x))[0].float()
    p_V = logit_V.sigmoid() if isinstance(label, LabelsField) else logit_V.softmax(-1)
    order = p_V.argsort(descending=True, stable=True).tolist()
    classes = [(label.class_name(n), float(p_V[n])) for n in order]
    return {"classes": classes, "output": classes[0][0]} if is_output else {"classes": classes}


# ---------------------------------------------------------------------------------------------------------------- tensors


def input_fields(model: Structure, codec: Codec) -> list[TextField]:
    """The fields of the model's input."""
    if Decodes in model.provides():
        return [encoder_field(model, codec.info) or cast(Decodes, model).target]
    return codec.info.input_texts()


def encoder_input(model: Structure, codec: Codec, text: str) -> np.ndarray | MarkedIds:
    """The input ids of a text, or of several separated by tabs, with special tokens."""
    fields = input_fields(model, codec)
    row = {fields[0].name: text} if len(fields) == 1 else request_cells(codec.info, text)
    example = encode_example(codec, row)
    if Decodes in model.provides():
        return fields[0].frame.around([example[fields[0].name]])
    return EncoderInput(codec.info)(example)


def token_names(codec: Codec, field: TextField, ids: Sequence[int]) -> list[str]:
    special = {field.special.bos: BOS, field.special.eos: EOS}
    names = codec.tokenizers[field.space].tokens(list(ids))
    return [special.get(number, name) for number, name in zip(ids, names, strict=True)]


def _batch(model: nn.Module, **rows: Sequence[int] | np.ndarray | MarkedIds) -> Any:
    instance = Instance({name: ids if isinstance(ids, MarkedIds) else np.array(ids, np.int64) for name, ids in rows.items()})
    return collate([instance]).to(next(model.parameters()).device)


def _padded(x: Seq, width: int) -> Seq:
    """The sequence padded on the right to ``width``."""
    if x.width == width:
        return x
    more = x.data.new_zeros(x.rows, width - x.width)
    return replace(x, data=torch.cat([x.data, more], 1), mask=torch.cat([x.real(), more.bool()], 1))


def _calls(maps: Mapping[str, list[Tensor]]) -> list[tuple[str, Tensor]]:
    """The recorded weights of the only example, H x T x S, by name; a module that is called several times has several."""
    return [
        (f"{name or 'attention'} ({n})" if len(calls) > 1 else name or "attention", weight_BHTS[0].float().cpu())
        for name, calls in maps.items()
        for n, weight_BHTS in enumerate(calls, 1)
    ]


def _numbered(weight_HTS: Tensor) -> AttentionMap:
    """A map over something else than tokens, such as windows or latent slots: queries and keys are numbered."""
    queries, keys = (list(map(str, range(1, n + 1))) for n in weight_HTS.shape[1:])
    return AttentionMap(weight_HTS, queries, keys, OTHER, "At position")
