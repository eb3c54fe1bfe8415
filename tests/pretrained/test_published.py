"""Published models against the package transformers: the same weights give the same states, losses, gradients and texts."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.core.batch import Batch
from weft.core.fields import Info, LabelField, TextField
from weft.core.seq import Seq
from weft.models.zoo.family import FAMILIES
from weft.pretrained import load, save

VOCAB = 50
BODY = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
}
DISTIL = {
    "vocab_size": VOCAB,
    "dim": 48,
    "n_layers": 3,
    "n_heads": 2,
    "hidden_dim": 20,
    "max_position_embeddings": 30,
}
T5 = {"vocab_size": VOCAB, "d_model": 24, "d_kv": 7, "num_heads": 2, "num_layers": 2, "num_decoder_layers": 3, "d_ff": 20}
GPT = {"vocab_size": VOCAB, "n_embd": 48, "n_layer": 2, "n_head": 3, "n_positions": 30}
LLAMA = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 30,
    "pad_token_id": None,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
BART = {
    "vocab_size": VOCAB,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 30,
}

ENCODERS: dict[str, Callable[[], Any]] = {
    "bert-pretraining": lambda: hf.BertForPreTraining(hf.BertConfig(**BODY)),
    "bert-relate": lambda: hf.BertForNextSentencePrediction(hf.BertConfig(**BODY)),
    "bert-fill": lambda: hf.BertForMaskedLM(hf.BertConfig(**BODY, hidden_act="gelu_new", layer_norm_eps=1e-6)),
    "bert-untied": lambda: hf.BertForMaskedLM(hf.BertConfig(**BODY, tie_word_embeddings=False)),
    "bert-bare": lambda: hf.BertModel(hf.BertConfig(**BODY, type_vocab_size=3)),
    "bert-classify": lambda: hf.BertForSequenceClassification(hf.BertConfig(**BODY, num_labels=3)),
    "bert-tag": lambda: hf.BertForTokenClassification(hf.BertConfig(**BODY, num_labels=5)),
    "bert-answer": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**BODY)),
    "roberta-answer": lambda: hf.RobertaForQuestionAnswering(hf.RobertaConfig(**BODY, type_vocab_size=1)),
    "albert-answer": lambda: hf.AlbertForQuestionAnswering(hf.AlbertConfig(**BODY, embedding_size=8)),
    "electra-answer": lambda: hf.ElectraForQuestionAnswering(hf.ElectraConfig(**BODY, embedding_size=8)),
    "roberta-fill": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**BODY, type_vocab_size=1)),
    "roberta-untied": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**BODY, tie_word_embeddings=False)),
    "roberta-classify": lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(**BODY, num_labels=3)),
    "roberta-tag": lambda: hf.RobertaForTokenClassification(hf.RobertaConfig(**BODY)),
    "albert-pretraining": lambda: hf.AlbertForPreTraining(hf.AlbertConfig(**BODY, embedding_size=8)),
    "albert-groups": lambda: hf.AlbertForMaskedLM(
        hf.AlbertConfig(**BODY | {"num_hidden_layers": 4}, embedding_size=8, num_hidden_groups=2)
    ),
    "albert-classify": lambda: hf.AlbertForSequenceClassification(hf.AlbertConfig(**BODY, embedding_size=48)),
    "electra-fill": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**BODY, embedding_size=8)),
    "albert-untied": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**BODY, embedding_size=8, tie_word_embeddings=False)),
    "electra-untied": lambda: hf.ElectraForMaskedLM(hf.ElectraConfig(**BODY, embedding_size=8, tie_word_embeddings=False)),
    "electra-classify": lambda: hf.ElectraForSequenceClassification(hf.ElectraConfig(**BODY, embedding_size=48)),
    "electra-judge": lambda: hf.ElectraForPreTraining(hf.ElectraConfig(**BODY, embedding_size=8, hidden_act="relu")),
    "electra-tag": lambda: hf.ElectraForTokenClassification(hf.ElectraConfig(**BODY, embedding_size=8)),
    "distilbert-bare": lambda: hf.DistilBertModel(hf.DistilBertConfig(**DISTIL)),
    "distilbert-fill": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(**DISTIL, activation="relu")),
    "distilbert-untied": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig(**DISTIL, tie_word_embeddings=False)),
    "distilbert-classify": lambda: hf.DistilBertForSequenceClassification(hf.DistilBertConfig(**DISTIL, num_labels=3)),
    "distilbert-tag": lambda: hf.DistilBertForTokenClassification(hf.DistilBertConfig(**DISTIL, num_labels=5)),
    "distilbert-answer": lambda: hf.DistilBertForQuestionAnswering(hf.DistilBertConfig(**DISTIL)),
    "xlm-roberta-bare": lambda: hf.XLMRobertaModel(hf.XLMRobertaConfig(**BODY, type_vocab_size=1)),
    "xlm-roberta-fill": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**BODY, type_vocab_size=1, layer_norm_eps=1e-5)),
    "xlm-roberta-untied": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**BODY, tie_word_embeddings=False)),
    "xlm-roberta-classify": lambda: hf.XLMRobertaForSequenceClassification(hf.XLMRobertaConfig(**BODY, num_labels=3)),
    "xlm-roberta-tag": lambda: hf.XLMRobertaForTokenClassification(hf.XLMRobertaConfig(**BODY)),
    "xlm-roberta-answer": lambda: hf.XLMRobertaForQuestionAnswering(hf.XLMRobertaConfig(**BODY, type_vocab_size=1)),
    "mpnet-bare": lambda: hf.MPNetModel(hf.MPNetConfig(**BODY)),
    "mpnet-fill": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**BODY, hidden_act="relu", layer_norm_eps=1e-5)),
    "mpnet-untied": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**BODY, tie_word_embeddings=False)),
    "mpnet-classify": lambda: hf.MPNetForSequenceClassification(hf.MPNetConfig(**BODY, num_labels=3)),
    "mpnet-tag": lambda: hf.MPNetForTokenClassification(hf.MPNetConfig(**BODY)),
    "mpnet-answer": lambda: hf.MPNetForQuestionAnswering(hf.MPNetConfig(**BODY)),
}
DECODERS: dict[str, Callable[[], Any]] = {
    "gpt": lambda: hf.OpenAIGPTLMHeadModel(hf.OpenAIGPTConfig(**GPT)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT)),
    "gpt2-odd": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, n_inner=31, activation_function="relu", layer_norm_epsilon=1e-6)),
    "gpt2-untied": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT, tie_word_embeddings=False)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**LLAMA, rope_parameters={"rope_theta": 500.0})),
    "llama-tied": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**LLAMA, tie_word_embeddings=True, hidden_act="gelu", head_dim=6, attention_bias=True, mlp_bias=True)
    ),
    "llama-3.1": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "llama3", "rope_theta": 100.0, **LLAMA3})
    ),
    "llama-linear": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**LLAMA, rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0})
    ),
    "llama-yarn": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(
            **LLAMA,
            rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16},
        )
    ),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**LLAMA, sliding_window=3)),
    "mistral-full": lambda: hf.MistralForCausalLM(hf.MistralConfig(**LLAMA, sliding_window=None)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**LLAMA)),
    "qwen2-windows": lambda: hf.Qwen2ForCausalLM(
        hf.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=2, max_window_layers=1)
    ),
}
PAIRS: dict[str, Callable[[], Any]] = {
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    "t5-far": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(**T5, relative_attention_num_buckets=6, relative_attention_max_distance=5)
    ),
    "t5-v1.1": lambda: hf.T5ForConditionalGeneration(
        hf.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    ),
    "mt5": lambda: hf.MT5ForConditionalGeneration(hf.MT5Config(**T5, feed_forward_proj="gated-gelu")),
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**BART)),
    "bart-scaled": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(**BART, scale_embedding=True, activation_function="relu")
    ),
}
ALL = ENCODERS | DECODERS | PAIRS
COUNTED = ("roberta", "xlm-roberta", "mpnet")
"""Families whose positions start after the padding id."""


def made(name: str, seed: int, norms: float = 0.0) -> Any:
    """A model of transformers whose every parameter, biases and norms too, is sampled from N(0, 0.3), norms around ``norms``."""
    model = ALL[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
            if tensor.is_floating_point() and not key.endswith((".attn.bias", "inv_freq")):  # GPT's triangle, frequencies
                mean = norms if tensor.ndim == 1 and re.search(r"(norm|ln_\d|ln_f)\w*\.weight$", key, re.IGNORECASE) else 0.0
                tensor.copy_(mean + torch.randn(tensor.shape, generator=generator) * 0.3)
    model.tie_weights()
    return model.eval()


def written(name: str, seed: int, folder: Path, norms: float = 0.0) -> Any:
    model = made(name, seed, norms)
    model.save_pretrained(folder)
    return model


def rows(seed: int, lengths: tuple[int, ...] = (9, 6, 1), left: bool = False) -> tuple[Tensor, Tensor]:
    """Ids and the mask of their real positions, padded on either side."""
    generator, width = torch.Generator().manual_seed(seed), max(lengths)
    ids = torch.randint(5, VOCAB, (len(lengths), width), generator=generator)
    at = torch.arange(width)
    real = torch.stack([(at >= width - n) if left else (at < n) for n in lengths])
    return torch.where(real, ids, 1), real


def close(ours: Tensor, theirs: Tensor, to: float = 1e-5) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= to * max(1e-3, float(theirs.abs().max()))


def reading(name: str, theirs: Any, ids: Tensor, real: Tensor) -> tuple[Any, Seq]:
    """transformers' result, given weft's positions, and what weft is given."""
    position = (real.long().cumsum(1) - 1).clamp(min=0)
    told: dict[str, Any] = {"position_ids": position}
    marks = {}
    if name.startswith(COUNTED):
        told["position_ids"] = position + theirs.config.pad_token_id + 1
    if getattr(theirs.config, "type_vocab_size", 1) > 1:
        marks["segment"] = told["token_type_ids"] = (
            torch.arange(ids.shape[1]) * theirs.config.type_vocab_size // ids.shape[1]
        ).expand_as(ids)
    return theirs(ids, attention_mask=real.long(), output_hidden_states=True, **told), Seq(ids, real, marks)


def heads(ours: Any, x: Seq, result: Any, real: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Every result of the heads: ours and theirs."""
    hidden = ours.encode(x)
    if hasattr(ours, "classifier"):
        yield ours.classifier(ours.features(x)), result.logits
    elif hasattr(ours, "span_head"):
        begin, end = ours.span_head(hidden.data).unbind(-1)
        yield begin[real], result.start_logits[real]
        yield end[real], result.end_logits[real]
    elif hasattr(ours, "tag_head"):
        yield ours.tag_head(hidden.data)[real], result.logits[real]
    else:
        if ours.head is not None:
            yield (
                ours.head(hidden.data)[real],
                (result.prediction_logits if "prediction_logits" in result else result.logits)[real],
            )
        if ours.discriminator is not None:
            yield ours.discriminator(hidden.data).squeeze(-1)[real], result.logits[real]
        if ours.segment_head is not None:
            names = ("sop_logits", "seq_relationship_logits", "logits")
            yield ours.segment_head(ours.features(x)), result[next(name for name in names if name in result)]
        if "pooler_output" in result and ours.pooler is not None:
            yield ours.features(x), result.pooler_output


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_has_the_same_states_and_heads(name: str, left: bool, tmp_path: Path) -> None:
    for seed in (1, 2):
        theirs = written(name, seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        ids, real = rows(seed, left=left)
        with torch.no_grad():
            result, x = reading(name, theirs, ids, real)
            states = ours.encoder.states(ours.embedder(x))
            assert len(states) == len(result.hidden_states)
            for a, b in zip(states, result.hidden_states, strict=True):
                close(a.data[real], b[real])
            pairs = [] if left else list(heads(ours, x, result, real))  # theirs pool the first slot, also where it is padding
            assert pairs or left or name == "distilbert-bare"  # which has no pooler
            for a, b in pairs:
                close(a, b)


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_alone_has_the_same_logits(name: str, left: bool, tmp_path: Path) -> None:
    for seed in (1, 2):
        theirs = written(name, seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        ids, real = rows(seed, left=left)
        position = (real.long().cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            expected = theirs(ids, attention_mask=real.long(), position_ids=position).logits
            close(ours.head(ours.decode(Seq(ids, real), None).hidden.data)[real], expected[real])


@pytest.mark.parametrize("name", PAIRS)
def test_encoder_and_decoder_have_the_same_states_and_logits(name: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        theirs = written(name, seed, tmp_path / str(seed))
        ours = load(tmp_path / str(seed)).model
        (ids, real), (target, there) = rows(seed, (21, 6, 1)), rows(seed + 10, (7, 5, 2))
        with torch.no_grad():
            result = theirs(
                ids,
                attention_mask=real.long(),
                decoder_input_ids=target,
                decoder_attention_mask=there.long(),
                output_hidden_states=True,
            )
            source = Seq(ids, real)
            for a, b in zip(ours.encoder.states(ours.embedder(source)), result.encoder_hidden_states, strict=True):
                close(a.data[real], b[real])
            hidden = ours.decode(Seq(target, there), ours.memory(Batch({"source": source}, 3))).hidden
            close(hidden.data[there], result.decoder_hidden_states[-1][there])
            close(ours.head(hidden.data)[there], result.logits[there])


@pytest.mark.parametrize(
    "name", ["bert-fill", "roberta-fill", "albert-groups", "electra-fill", "distilbert-fill", "mpnet-fill", "gpt2", "bart", "t5"]
)
def test_ids_and_positions_that_a_model_does_not_have_are_named(name: str, tmp_path: Path) -> None:
    written(name, 1, tmp_path)
    ours = load(tmp_path).model
    read = ours.encode if name in ENCODERS else lambda x: ours.decode(x, None)
    written_after = name in PAIRS
    calls = [lambda x: ours.memory(Batch({"source": x}, x.rows))] if written_after else [read]
    if written_after:
        memory = ours.memory(Batch({"source": Seq(torch.tensor([[7], [7]]))}, 2))
        calls.append(lambda x: ours.decode(x, memory))
    for call in calls:
        for wrong in (VOCAB, -2):
            with pytest.raises(ValueError, match=rf"id {wrong} \(row 1, position 2\) is out of range; ids are 0 to {VOCAB - 1}"):
                call(Seq(torch.tensor([[7, 8, 9], [7, 8, wrong]])))
        with pytest.raises(ValueError, match=f"soft ids have {VOCAB + 1} entries, but the vocabulary has {VOCAB} ids"):
            call(Seq(torch.full((2, 3, VOCAB + 1), 1 / VOCAB)))
        most = 30 - 2 * name.startswith(COUNTED)  # the rest of RoBERTa's stand before position 0
        if name != "t5":  # whose positions have no end
            call(Seq(torch.full((2, most), 7)))
            with pytest.raises(ValueError, match=f"a sequence has {most + 1} tokens, but there are {most} learned positions"):
                call(Seq(torch.full((2, most + 1), 7)))
            with pytest.raises(ValueError, match=f"token 0 of row 1 has position {most}, but there are {most} learned"):
                call(Seq(torch.full((2, 1), 7)).mark(position=torch.tensor([[most - 1], [most]])))


def gradients(name: str, theirs: Any, ours: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Of the mean squared logits, by the names that a file of theirs has."""
    ids, real = rows(3)
    written = ids[:, :4].clamp(min=5)  # theirs learn nothing about the vector of padding
    if name in PAIRS:
        expected = theirs(ids, attention_mask=real.long(), decoder_input_ids=written).logits
        found = ours.head(ours.decode(Seq(written), ours.memory(Batch({"source": Seq(ids, real)}, 3))).hidden.data)
    elif name in DECODERS:
        expected = theirs(ids, attention_mask=real.long()).logits[real]
        found = ours.head(ours.decode(Seq(ids, real), None).hidden.data)[real]
    else:
        result, x = reading(name, theirs, ids, real)
        found, expected = next(heads(ours, x, result, real))
    expected.pow(2).mean().backward()
    found.pow(2).mean().backward()
    of_theirs = {key: p.grad for key, p in theirs.named_parameters() if p.grad is not None}
    return of_theirs, {key: p.grad for key, p in ours.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "name",
    [
        *("bert-fill", "roberta-classify", "albert-groups", "electra-tag", "distilbert-classify", "mpnet-classify"),
        *("gpt2", "t5", "t5-v1.1", "bart", "qwen2-windows"),
    ],
)
def test_gradients_are_the_same(name: str, tmp_path: Path) -> None:
    theirs = written(name, 5, tmp_path, norms=1.0)
    loaded = load(tmp_path)
    of_theirs, of_ours = gradients(name, theirs, loaded.model)
    twin = copy.deepcopy(theirs)
    with torch.no_grad():
        for key, parameter in twin.named_parameters():
            parameter.copy_(of_theirs.get(key, torch.zeros_like(parameter)))
    twin.save_pretrained(tmp_path / "gradients")
    named = load(tmp_path / "gradients")
    tensors = dict(named.model.named_parameters())
    assert len(of_ours) > 10
    largest = max(float(gradient.abs().max()) for gradient in of_ours.values())
    for key, gradient in of_ours.items():
        if (name, key) == ("bart", "head.bias"):
            continue  # a constant there
        assert (gradient - tensors[key].detach()).abs().max() <= 1e-4 * largest, key


@pytest.mark.parametrize("name", ALL)
def test_what_weft_writes_transformers_reads(name: str, tmp_path: Path) -> None:
    theirs = written(name, 7, tmp_path / "theirs")
    loaded = load(tmp_path / "theirs")
    kept = {k: v for k, v in loaded.published.config.items() if k.endswith("_token_id") or k in ("id2label", "label2id")}
    save(loaded.model, loaded.structure, tmp_path / "ours", config=kept)
    first, second = load_file(tmp_path / "theirs/model.safetensors"), load_file(tmp_path / "ours/model.safetensors")
    unread = {
        key for key in first if key in ("cls.predictions.bias", "predictions.bias", "lm_head.bias") and name.endswith("untied")
    }
    assert set(first) - unread == set(second)
    for key, tensor in second.items():
        assert torch.equal(first[key], tensor), key
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    ids, real = rows(7)
    told = {"decoder_input_ids": ids} if name in PAIRS else {}
    with torch.no_grad():
        a, b = (m(ids, attention_mask=real.long(), **told)[0] for m in (theirs, again))
    assert torch.equal(a, b)


@pytest.mark.parametrize(
    "name",
    [
        *("bert-pretraining", "roberta-fill", "albert-groups", "electra-fill", "distilbert-classify", "mpnet-fill"),
        *("gpt2", "t5", "t5-v1.1", "bart", "llama-tied"),
    ],
)
def test_two_tensors_that_are_swapped_are_noticed(name: str, tmp_path: Path) -> None:
    # around 1: norms around 0 make all tokens alike in deep layers, and then it does not matter where one looks
    theirs = written(name, 9, tmp_path, norms=1.0)
    whole = load_file(tmp_path / "model.safetensors")
    by_shape: dict[Any, list[str]] = {}
    for key, tensor in whole.items():
        by_shape.setdefault(tuple(tensor.shape), []).append(key)
    ids, real = rows(9, (9, 8))

    def result() -> list[Tensor]:
        ours = load(tmp_path).model
        with torch.no_grad():
            if name in PAIRS:
                hidden = ours.decode(Seq(ids[:, :5]), ours.memory(Batch({"source": Seq(ids, real)}, 2))).hidden
                return [ours.head(hidden.data)]
            if name in DECODERS:
                return [ours.head(ours.decode(Seq(ids, real), None).hidden.data)[real]]
            expected, x = reading(name, theirs, ids, real)
            states = ours.encoder.states(ours.embedder(x))
            return [*(s.data[real] for s in states), *(a for a, _ in heads(ours, x, expected, real))]

    before = result()
    # the bias of a key moves all scores of a query alike: no softmax can tell
    silent = [key for key in whole if key.endswith((".key.bias", ".k_proj.bias", ".k_lin.bias", ".k.bias"))]
    pairs = [pair for keys in by_shape.values() for pair in itertools.combinations(keys, 2) if not set(pair) <= set(silent)]
    chosen = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))[:120].tolist()
    for one, two in (pairs[i] for i in chosen):
        swapped = {**whole, one: whole[two], two: whole[one]}
        save_file(swapped, tmp_path / "model.safetensors", metadata={"format": "pt"})
        after = result()
        off = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(after, before, strict=True))
        assert off > 2e-5, (one, two)  # more than the comparison allows


def test_every_family_is_compared() -> None:
    images = {"vit", *(name for name, family in FAMILIES.items() if family.networks)}  # test_vit.py, test_networks.py
    assert {made(name, 0).config.model_type for name in ALL} == set(FAMILIES) - images


@pytest.mark.parametrize("name", ALL)
def test_loading_draws_nothing_and_holds_nothing_twice(name: str, tmp_path: Path) -> None:
    written(name, 2, tmp_path)
    before = torch.get_rng_state()
    tensors = dict(load(tmp_path).model.named_parameters())
    assert torch.equal(torch.get_rng_state(), before)
    for tensor in tensors.values():
        assert not tensor.is_meta and tensor.requires_grad and tensor.dtype == torch.float32 and tensor.is_contiguous()
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    assert len({tensor.data_ptr() for tensor in tensors.values()}) == len(tensors)


def test_a_new_head_is_sampled(tmp_path: Path) -> None:
    written("bert-fill", 2, tmp_path)
    loaded = load(tmp_path, task="classification")
    assert any(name.startswith("classifier.out") for name in loaded.report.new)
    assert all(not tensor.is_meta for tensor in loaded.model.parameters())
    assert dict(loaded.model.named_parameters())["classifier.out.weight"].std() > 0


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    theirs = made("bert-fill", 1)
    theirs.save_pretrained(tmp_path, max_shard_size="10KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    ours = load(tmp_path).model
    assert torch.equal(ours.embedder.parts[0].weight, theirs.bert.embeddings.word_embeddings.weight)


def test_old_names_of_norms_are_read(tmp_path: Path) -> None:
    written("bert-fill", 1, tmp_path)
    expected = load(tmp_path).model.state_dict()
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for key, tensor in load_file(tmp_path / "model.safetensors").items()
    }
    assert any(key.endswith("gamma") for key in old)
    save_file(old, tmp_path / "model.safetensors")
    found = load(tmp_path)
    assert not found.report.new and not found.report.unused
    assert all(torch.equal(tensor, expected[key]) for key, tensor in found.model.state_dict().items())


def test_classes_are_named_by_their_numbers(tmp_path: Path) -> None:
    written("bert-classify", 1, tmp_path)
    change(tmp_path, id2label={"1": "one", "2": "two", "0": "zero"})
    assert load(tmp_path).info["label"].labels == ("zero", "one", "two")
    config = json.loads((tmp_path / "config.json").read_text())
    del config["id2label"], config["label2id"]
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_labels": 3}))
    assert load(tmp_path).info["label"].labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    for wrong in ({"1": "a", "2": "b", "3": "c"}, {"0": "a", "x": "b"}, [1, 2]):
        change(tmp_path, id2label=wrong)
        with pytest.raises(ValueError, match=re.escape(f"config.json: id2label is {wrong!r}, but it must name the classes 0, 1")):
            load(tmp_path)


def test_a_bare_bart_writes_as_theirs_does(tmp_path: Path) -> None:
    theirs = made("bart", 1)
    theirs.final_logits_bias.zero_()
    theirs.model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BartModel"]
    ours = load(tmp_path).model
    ids, real = rows(1)
    with torch.no_grad():
        hidden = ours.decode(Seq(ids, real), ours.memory(Batch({"source": Seq(ids, real)}, 3))).hidden
        expected = theirs(ids, attention_mask=real.long(), decoder_input_ids=ids, decoder_attention_mask=real.long()).logits
    close(ours.head(hidden.data)[real], expected[real])


def test_copies_of_the_tokens_beside_a_head_of_its_own_are_left_out(tmp_path: Path) -> None:
    written("t5-v1.1", 1, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    table = tensors["shared.weight"]
    copies = {f"{side}.embed_tokens.weight": table.clone() for side in ("encoder", "decoder")}
    save_file(tensors | copies | {"lm_head.weight": table + 1}, tmp_path / "model.safetensors")
    change(tmp_path, tie_word_embeddings=False)
    found = load(tmp_path)
    assert found.report.unused == [] and torch.equal(found.model.head.out.weight, table + 1)


def test_unused_tensors_are_listed(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"adapter.weight": torch.ones(2), "qa_outputs.bias": torch.ones(2)}, folder / "model.safetensors")
    report = load(folder).report
    assert report.unused == ["adapter.weight", "qa_outputs.bias"] and "not used: adapter.weight, qa_outputs.bias" in str(report)
    assert load(folder, task="question-answering").report.unused[-1] == "adapter.weight"
    save_file(tensors | {"bert.encoder.layer.0.adapter.weight": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"do not fit this structure: unexpected: bert.encoder.layer.0.adapter.weight$"):
        load(folder)


# -------------------------------------------------------------------------------------------------------------- bad input


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written("bert-fill", 1, tmp_path)
    return tmp_path


def change(folder: Path, **config: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0},
    ],
)
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2"])
def test_a_scaling_that_is_added_to_a_config_wins(name: str, scaling: dict[str, Any], tmp_path: Path) -> None:
    written(name, 1, tmp_path)
    change(tmp_path, rope_scaling=scaling)
    theirs, (ids, real) = hf.AutoModelForCausalLM.from_pretrained(tmp_path).eval(), rows(1)
    with torch.no_grad():
        ours = load(tmp_path).model.eval()(ids, real)
        close(ours[real], theirs(ids, attention_mask=real.long()).logits[real])


def test_types_of_layers_of_a_mistral_are_refused(tmp_path: Path) -> None:
    written("mistral", 1, tmp_path)
    change(tmp_path, layer_types=["full_attention", "sliding_attention"])
    with pytest.raises(ValueError, match="layer_types"):
        load(tmp_path)


def test_an_unknown_family_names_the_nearest(folder: Path) -> None:
    change(folder, model_type="bret")
    with pytest.raises(ValueError, match=r"unknown model_type 'bret'; did you mean 'bert'\?"):
        load(folder)


def test_a_config_that_does_not_match_the_weights_lists_what_differs(folder: Path) -> None:
    change(folder, intermediate_size=99)
    with pytest.raises(ValueError, match=r"layer.0.intermediate.dense.weight .* has shape \(20, 48\), expected \(99, 48\)"):
        load(folder)
    change(folder, intermediate_size=20, num_hidden_layers=4)
    with pytest.raises(ValueError, match=r"missing: bert.encoder.layer.3.attention.self.query.weight"):
        load(folder)


def test_a_config_that_lacks_a_key_is_reported(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"config.json has no 'hidden_size', which a bert needs"):
        load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        load(folder)


def test_choices_that_weft_does_not_have_are_refused(folder: Path) -> None:
    change(folder, hidden_act="mish")
    with pytest.raises(ValueError, match="hidden_act is 'mish'; supported are gelu"):
        load(folder)
    change(folder, hidden_act="gelu", position_embedding_type="relative_key")
    with pytest.raises(ValueError, match="position_embedding_type is 'relative_key', but only 'absolute' is supported"):
        load(folder)


WRONG: dict[str, list[tuple[str, Any, str]]] = {
    "bert-fill": [
        ("hidden_size", "48", "must be an integer from 1"),
        ("num_attention_heads", 0, "must be an integer from 1"),
        ("num_hidden_layers", 0, "must be an integer from 1"),
        ("num_hidden_layers", -1, "must be an integer from 1"),
        ("vocab_size", -5, "must be an integer from 1"),
        ("vocab_size", 10**12, "must be an integer from 1"),
        ("vocab_size", 10**8, "the file has 50 token embeddings"),
        ("vocab_size", 40, "the file has 50 token embeddings"),
        ("intermediate_size", 2.5, "must be an integer from 1"),
        ("layer_norm_eps", "1e-5", "must be a number from 0"),
        ("layer_norm_eps", -1e-5, "must be a number from 0"),
        ("layer_norm_eps", float("nan"), "must be a number from 0"),
        ("hidden_act", ["gelu"], "must be a string"),
        ("architectures", "BertModel", "must be a list of strings"),
        ("tie_word_embeddings", "false", "must be true or false"),
        ("quantization_config", {"bits": 4}, "only None is supported"),
        ("pruned_heads", {"0": [1]}, "only {} is supported"),
    ],
    "gpt2": [
        ("n_embd", 48.0, "must be an integer from 1"),
        ("n_head", True, "must be an integer from 1"),
        ("attn_pdrop", "a", "must be a number from 0 to below 1"),
        ("activation_function", ["gelu"], "must be a string"),
        ("rotary", True, "only False is supported"),
    ],
    "roberta-fill": [("pad_token_id", "1", "must be an integer from -1")],
}


@pytest.mark.parametrize("name", WRONG)
def test_values_of_another_kind_are_refused(name: str, tmp_path: Path) -> None:
    written(name, 1, tmp_path)
    whole = (tmp_path / "config.json").read_text()
    for key, value, message in WRONG[name]:
        change(tmp_path, **{key: value})
        with pytest.raises(ValueError, match=re.escape(f"{tmp_path}: config.json: {key} is {value!r}, but ") + f".*{message}"):
            load(tmp_path)
        (tmp_path / "config.json").write_text(whole)
    load(tmp_path)


def test_null_means_unspecified(folder: Path) -> None:
    change(folder, classifier_dropout=None, pruned_heads={}, quantization_config=None)
    load(folder, task="classification")
    change(folder, max_position_embeddings=None)
    with pytest.raises(ValueError, match=r"config.json has no 'max_position_embeddings', which a bert needs"):
        load(folder)


def test_a_config_that_is_no_object_of_a_family(folder: Path) -> None:
    change(folder, model_type=["bert"])
    with pytest.raises(ValueError, match="unknown model_type"):
        load(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config.json: must be a JSON object"):
        load(folder)


def test_layers_that_the_config_does_not_have_are_refused(folder: Path) -> None:
    change(folder, num_hidden_layers=2)
    with pytest.raises(ValueError, match=r"config.json has 2 layers, but the file has 3; unexpected: bert.encoder.layer.2.att"):
        load(folder)


def test_numbers_that_are_no_weights_are_refused(folder: Path) -> None:
    tensors, name = load_file(folder / "model.safetensors"), "bert.encoder.layer.1.output.dense.bias"
    save_file(tensors | {name: tensors[name].long()}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{name} \(.*\) has dtype int64, expected float32"):
        load(folder)
    tensors[name][3] = float("nan")
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=rf"{name} \(.*\) has NaN or infinite values"):
        load(folder)
    save_file(tensors | {name: torch.full_like(tensors[name], 3e38)}, folder / "model.safetensors")  # their sum is infinite
    assert load(folder).report.new == []


def test_classes_of_transformers_that_are_not_known(folder: Path) -> None:
    change(folder, architectures=["BertLMHeadModel"])
    message = r"architectures is \['BertLMHeadModel'\]; supported are BertModel, .*\. Set task .*: encode, masked-lm"
    with pytest.raises(ValueError, match=message):
        load(folder)
    assert load(folder, task="masked-lm").report.new == []
    new = [f"{part}.{kind}" for part in ("pooler.transform.map", "segment_head.out") for kind in ("bias", "weight")]
    assert sorted(load(folder, task="next-sentence").report.new) == new
    change(folder, architectures=[])
    assert load(folder).model.head is None
    change(folder, architectures=["Mine", "BertForMaskedLM"])
    assert load(folder).model.head is not None


@pytest.mark.parametrize("index", [[], {"weight_map": 3}, {"weight_map": {"a": 3}}, {"weight_map": {"a": "../x.safetensors"}}])
def test_an_index_that_names_no_files_beside_it(index: Any, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=r"index.json: .*weight_map"):
        load(folder)


def test_damaged_files(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    for damaged in (whole[:100], whole[: len(whole) // 2], b"", b"\xff" * 64):
        (folder / "model.safetensors").write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a valid safetensors file"):
            load(folder)


def test_a_pickle_alone_is_refused_with_the_way_to_convert_it(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pickle only \(pytorch_model.bin\).*Bert\w+\.from_pretrained.*safe_serialization=True"):
        load(folder)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config.json"):
        load(tmp_path)
    with pytest.raises(ValueError, match="there is no file or folder"):
        load(tmp_path / "nowhere")


def test_a_copy_of_the_tokens_that_differs_is_refused(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    table = tensors["bert.embeddings.word_embeddings.weight"]
    save_file(tensors | {"cls.predictions.decoder.weight": table.clone()}, folder / "model.safetensors")
    assert load(folder).report.unused == []
    save_file(tensors | {"cls.predictions.decoder.weight": table + 1}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"tie_word_embeddings.*cls.predictions.decoder.weight differs"):
        load(folder)


def test_a_structure_of_no_family_cannot_be_saved(tmp_path: Path) -> None:
    from functools import partial

    from weft.models import Classifier

    model = Classifier(Info({"text": TextField("text", 11), "label": LabelField("label", 2)}), dim=8)
    with pytest.raises(ValueError, match="none of the published families"):
        save(model, partial(Classifier, dim=8), tmp_path)
