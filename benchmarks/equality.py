"""weft against the package transformers, on random configurations, weights and texts; exit code 1 on any difference.

``python -m benchmarks.equality --cases 200 --seed 1``. Per case, transformers writes a model of a random family, class and
configuration, and both packages compute hidden states, logits and greedy texts; weft saves it, which must give the same folder;
and one tokenizer folder encodes random strings. What weft refuses with a ValueError is counted as refused. Where transformers
fails too (question answering with another number of labels than two), weft must refuse; that counts as equal.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor

from weft.core.batch import Batch
from weft.core.example import MarkedIds
from weft.core.fields import Special
from weft.core.seq import Seq
from weft.data import PretrainedTokenizer
from weft.generate import GreedySearch
from weft.pretrained import load
from weft.pretrained.saving import FILE_KEYS

VOCAB, LENGTH = 30, 16
PAD, EOS = 1, 2
COUNTED = ("roberta", "xlm-roberta", "mpnet")
"""Families whose positions start after the padding id."""
TOLERANCE = 1e-4


class DifferenceError(AssertionError):
    """weft and transformers differ."""


def same(what: str, ours: Any, theirs: Any) -> None:
    """Raise where two values, or two tensors beyond rounding, differ."""
    if isinstance(theirs, Tensor):
        largest = max(1e-3, float(theirs.abs().max())) if theirs.numel() else 1.0
        if ours.shape != theirs.shape or (theirs.numel() and float((ours - theirs).abs().max()) > TOLERANCE * largest):
            raise DifferenceError(f"{what}: tensors of shapes {tuple(ours.shape)}, {tuple(theirs.shape)} differ")
    elif ours != theirs:
        raise DifferenceError(f"{what}: {str(ours)[:200]} != {str(theirs)[:200]}")


# --------------------------------------------------------------------------------------------------------------- models


def encoder_config(rng: random.Random) -> dict[str, Any]:
    """Options that BERT, RoBERTa, XLM-R, ALBERT and ELECTRA share."""
    heads = rng.choice([1, 2, 3])
    return {
        "vocab_size": VOCAB,
        "hidden_size": heads * rng.choice([4, 6]),
        "num_hidden_layers": rng.randint(1, 3),
        "num_attention_heads": heads,
        "intermediate_size": rng.randint(5, 20),
        "max_position_embeddings": LENGTH + 4,
        "type_vocab_size": rng.randint(1, 3),
        "hidden_act": rng.choice(["gelu", "gelu_new", "relu", "silu"]),
        "layer_norm_eps": rng.choice([1e-12, 1e-5]),
        "hidden_dropout_prob": rng.choice([0.0, 0.1]),
        "tie_word_embeddings": rng.random() < 0.6,
        "num_labels": rng.randint(2, 4),
        "classifier_dropout": rng.choice([None, 0.0, 0.3]),
    }


def encoder(family: str, rng: random.Random) -> Any:
    """A random model of the BERT family."""
    ends = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
    more = {"Bert": ["ForPreTraining", "ForNextSentencePrediction"], "Roberta": [], "XLMRoberta": []}
    ends += more.get(family, ["ForPreTraining"])
    config = encoder_config(rng)
    if family in ("Albert", "Electra"):
        config["embedding_size"] = rng.choice([5, config["hidden_size"]])
    if family == "Albert":
        del config["classifier_dropout"]
        config |= {"classifier_dropout_prob": rng.choice([0.0, 0.2]), "num_hidden_groups": 1}
    if family in ("Roberta", "XLMRoberta"):
        config["pad_token_id"] = PAD
    end = rng.choice(ends)
    pooler = {"add_pooling_layer": rng.random() < 0.5} if end == "Model" and family != "Electra" else {}
    return getattr(hf, family + end)(getattr(hf, family + "Config")(**config), **pooler)


def distilbert(rng: random.Random) -> Any:
    """A random DistilBERT."""
    heads = rng.choice([1, 2, 3])
    config = hf.DistilBertConfig(
        vocab_size=VOCAB,
        dim=heads * rng.choice([4, 6]),
        n_layers=rng.randint(1, 3),
        n_heads=heads,
        hidden_dim=rng.randint(5, 20),
        max_position_embeddings=LENGTH + 4,
        activation=rng.choice(["gelu", "relu", "gelu_new"]),
        dropout=rng.choice([0.0, 0.1]),
        seq_classif_dropout=rng.choice([0.0, 0.2]),
        qa_dropout=rng.choice([0.0, 0.3]),
        sinusoidal_pos_embds=rng.random() < 0.3,
        tie_word_embeddings=rng.random() < 0.6,
    )
    return with_head("DistilBert", config, rng)


def mpnet(rng: random.Random) -> Any:
    """A random MPNet."""
    heads = rng.choice([1, 2, 3])
    config = hf.MPNetConfig(
        vocab_size=VOCAB,
        hidden_size=heads * rng.choice([4, 6]),
        num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads,
        intermediate_size=rng.randint(5, 20),
        max_position_embeddings=LENGTH + 4,
        hidden_act=rng.choice(["gelu", "relu", "gelu_new"]),
        layer_norm_eps=rng.choice([1e-12, 1e-5]),
        hidden_dropout_prob=rng.choice([0.0, 0.1]),
        tie_word_embeddings=rng.random() < 0.6,
    )
    return with_head("MPNet", config, rng)


def with_head(family: str, config: Any, rng: random.Random) -> Any:
    """A model of a random class of a family, with any head but that of multiple choice."""
    ends = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
    end = rng.choice(ends)
    config.num_labels = 2 if end == "ForQuestionAnswering" else rng.randint(2, 4)
    return getattr(hf, family + end)(config)


def decoder(family: str, rng: random.Random) -> Any:
    """A random GPT or GPT-2."""
    heads = rng.choice([1, 2, 3])
    config: dict[str, Any] = {
        "vocab_size": VOCAB,
        "n_embd": heads * rng.choice([4, 6]),
        "n_layer": rng.randint(1, 3),
        "n_head": heads,
        "n_positions": LENGTH + 8,
        "layer_norm_epsilon": rng.choice([1e-5, 1e-6]),
        "tie_word_embeddings": rng.random() < 0.6,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "num_labels": rng.randint(2, 4),
    }
    if family == "GPT2":
        config |= {"n_inner": rng.choice([None, 11]), "activation_function": rng.choice(["gelu_new", "relu", "gelu"])}
    end = rng.choice(["Model", "LMHeadModel", "ForSequenceClassification"])
    return getattr(hf, family + end)(getattr(hf, family + "Config")(**config))


def rope(rng: random.Random) -> dict[str, Any]:
    """Random options of rotary positions."""
    found: dict[str, Any] = {
        "rope_theta": rng.choice([100.0, 10_000.0]),
        "rope_type": rng.choice(["default", "linear", "llama3", "yarn"]),
    }
    if found["rope_type"] != "default":
        found["factor"] = rng.choice([2.0, 8.0])
    if found["rope_type"] in ("llama3", "yarn"):
        found["original_max_position_embeddings"] = rng.choice([8, 64])
    if found["rope_type"] == "llama3":
        found |= {"low_freq_factor": rng.choice([0.5, 1.0]), "high_freq_factor": rng.choice([2.0, 4.0])}
    if found["rope_type"] == "yarn" and rng.random() < 0.5:
        found |= {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": rng.choice([0.7, 1.2])}
    return found


def llama(family: str, rng: random.Random) -> Any:
    """A random Llama, Mistral or Qwen2. Not with windows of 1: with a cache, theirs attend further than without."""
    heads, layers, size = rng.choice([1, 2, 4]), rng.randint(1, 3), rng.choice([4, 6])
    config: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": heads * size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": rng.choice([1, heads]),
        "intermediate_size": rng.randint(5, 20),
        "hidden_act": rng.choice(["silu", "silu", "gelu"]),
        "max_position_embeddings": LENGTH + 8,
        "rms_norm_eps": rng.choice([1e-5, 1e-6]),
        "rope_parameters": rope(rng),
        "tie_word_embeddings": rng.random() < 0.5,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "num_labels": rng.randint(2, 4),
    }
    if family == "Llama":
        config |= {"attention_bias": rng.random() < 0.5, "mlp_bias": rng.random() < 0.5, "head_dim": rng.choice([None, 8])}
    if family == "Mistral":
        config |= {"sliding_window": rng.choice([None, 2, 5]), "head_dim": rng.choice([None, 8])}
    if family == "Qwen2":
        config |= {
            "use_sliding_window": rng.random() < 0.7,
            "sliding_window": rng.choice([2, 5]),
            "max_window_layers": rng.randint(0, 2),
        }
    end = rng.choice(["Model", "ForCausalLM", "ForSequenceClassification"])
    return getattr(hf, family + end)(getattr(hf, family + "Config")(**config))


def t5(family: str, rng: random.Random) -> Any:
    """A random T5, T5 v1.1 or mT5."""
    buckets = rng.choice([4, 6, 8, 32])
    config: dict[str, Any] = {
        "vocab_size": VOCAB,
        "d_model": rng.choice([8, 12]),
        "d_kv": rng.choice([3, 4]),
        "num_heads": rng.randint(1, 3),
        "num_layers": rng.randint(1, 2),
        "num_decoder_layers": rng.choice([None, 1, 2]),
        "d_ff": rng.randint(5, 20),
        "feed_forward_proj": rng.choice(["relu", "gated-gelu", "gated-silu", "gelu"]),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": rng.choice([buckets // 2 + 1, buckets, 128]),
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": PAD,
    }
    if rng.random() < 0.5:
        config["tie_word_embeddings"] = rng.random() < 0.5
    end = rng.choice(["Model", "ForConditionalGeneration", "ForConditionalGeneration"])
    return getattr(hf, family + end)(getattr(hf, family + "Config")(**config))


def bart(rng: random.Random) -> Any:
    """A random BART."""
    heads = rng.choice([1, 2])
    config: dict[str, Any] = {
        "vocab_size": VOCAB,
        "d_model": heads * rng.choice([4, 6]),
        "max_position_embeddings": LENGTH + 8,
        "activation_function": rng.choice(["gelu", "relu"]),
        "scale_embedding": rng.random() < 0.5,
        "classifier_dropout": rng.choice([0.0, 0.2]),
        "num_labels": rng.randint(2, 4),
        "pad_token_id": PAD,
        "bos_token_id": 0,
        "eos_token_id": EOS,
        "decoder_start_token_id": EOS,
        "forced_eos_token_id": None,
    }
    for side in ("encoder", "decoder"):
        config |= {f"{side}_layers": rng.randint(1, 2), f"{side}_attention_heads": heads, f"{side}_ffn_dim": rng.randint(5, 20)}
    end = rng.choice(["Model", "ForConditionalGeneration", "ForSequenceClassification"])
    return getattr(hf, "Bart" + end)(hf.BartConfig(**config))


def vit(rng: random.Random) -> Any:
    """A random ViT."""
    heads, patch = rng.choice([1, 2]), rng.choice([2, 4])
    config = hf.ViTConfig(
        hidden_size=heads * rng.choice([4, 6]),
        num_hidden_layers=rng.randint(1, 3),
        num_attention_heads=heads,
        intermediate_size=rng.randint(5, 20),
        hidden_act=rng.choice(["gelu", "relu"]),
        image_size=patch * rng.randint(1, 3),
        patch_size=patch,
        num_channels=rng.choice([1, 3]),
    )
    config.num_labels = rng.randint(2, 4)
    if rng.random() < 0.5:
        return hf.ViTForImageClassification(config)
    return hf.ViTModel(config, add_pooling_layer=rng.random() < 0.5)


FAMILIES: dict[str, Callable[[random.Random], Any]] = {
    "bert": lambda rng: encoder("Bert", rng),
    "roberta": lambda rng: encoder("Roberta", rng),
    "albert": lambda rng: encoder("Albert", rng),
    "electra": lambda rng: encoder("Electra", rng),
    "distilbert": distilbert,
    "xlm-roberta": lambda rng: encoder("XLMRoberta", rng),
    "mpnet": mpnet,
    "gpt": lambda rng: decoder("OpenAIGPT", rng),
    "gpt2": lambda rng: decoder("GPT2", rng),
    "llama": lambda rng: llama("Llama", rng),
    "mistral": lambda rng: llama("Mistral", rng),
    "qwen2": lambda rng: llama("Qwen2", rng),
    "t5": lambda rng: t5("T5", rng),
    "mt5": lambda rng: t5("MT5", rng),
    "bart": bart,
    "vit": vit,
}


def randomize(model: Any, seed: int) -> Any:
    """All weights, biases and norms too, from N(0, 0.4)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.is_floating_point() and not name.endswith((".attn.bias", "inv_freq")):  # GPT's causal mask, frequencies
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.4)
    model.tie_weights()
    return model.eval()


def compare_encoder(theirs: Any, ours: Any, ids: Tensor, real: Tensor) -> None:
    """Hidden states of all layers, and the output of every head."""
    told: dict[str, Any] = {}
    types = getattr(theirs.config, "type_vocab_size", 1)
    marks = {}
    if types > 1:
        marks["segment"] = told["token_type_ids"] = (torch.arange(ids.shape[1]) % types).expand_as(ids)
    if theirs.config.model_type in COUNTED:  # by default derived from the ids, as padding may be a random id here
        told["position_ids"] = (real.long().cumsum(1) - 1).clamp(min=0) + PAD + 1
    result, x = theirs(ids, attention_mask=real.long(), output_hidden_states=True, **told), Seq(ids, real, marks)
    for number, (a, b) in enumerate(zip(ours.encoder.states(ours.embedder(x)), result.hidden_states, strict=True)):
        same(f"hidden state {number}", a.data[real], b[real])
    hidden = ours.encode(x).data
    if hasattr(ours, "classifier"):
        same("class logits", ours.classifier(ours.features(x)), result.logits)
    elif hasattr(ours, "span_head"):
        for k, name in enumerate(("start_logits", "end_logits")):
            same(name, ours.span_head(hidden)[..., k][real], result[name][real])
    elif hasattr(ours, "tag_head"):
        same("tag logits", ours.tag_head(hidden)[real], result.logits[real])
    else:
        if ours.head is not None:
            same("token logits", ours.head(hidden)[real], result.get("prediction_logits", result.get("logits"))[real])
        if ours.discriminator is not None:
            same("discriminator logits", ours.discriminator(hidden).squeeze(-1)[real], result.logits[real])
        if ours.segment_head is not None:
            names = ("sop_logits", "seq_relationship_logits", "logits")
            same("pair logits", ours.segment_head(ours.features(x)), result[next(name for name in names if name in result)])
        if ours.pooler is not None and result.get("pooler_output") is not None:
            same("pooled", ours.features(x), result.pooler_output)


def compare_decoder(theirs: Any, ours: Any, ids: Tensor, real: Tensor) -> None:
    """Hidden states, logits and greedy texts of a decoder alone."""
    result = theirs(ids, attention_mask=real.long(), output_hidden_states=True)
    hidden = ours.decode(Seq(ids, real), None).hidden.data
    same("hidden state", hidden[real], result.hidden_states[-1][real])
    if type(theirs).__name__.endswith("ForSequenceClassification"):
        same("class logits", ours.classifier(ours.features(Seq(ids, real))), result.logits)
    elif "logits" in result:
        same("token logits", ours.head(hidden)[real], result.logits[real])
        prompt = ids[:1, : int(real[0].sum())]
        written = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
        compare_texts(ours, None, Seq(prompt), written[:, prompt.shape[1] :])


def compare_pair(theirs: Any, ours: Any, ids: Tensor, real: Tensor) -> None:
    """Hidden states, logits and greedy texts of an encoder with a decoder."""
    source = Seq(ids, real)
    if type(theirs).__name__ == "BartForSequenceClassification":
        ids = torch.where(real, ids, PAD)
        ids[torch.arange(len(ids)), real.sum(1) - 1] = EOS
        source = Seq(ids, real)
        same("class logits", ours.classifier(ours.features(source)), theirs(ids, attention_mask=real.long()).logits)
        return
    target, there = ids.flip(0)[:, :5], real.flip(0)[:, :5]
    told = {"decoder_input_ids": target, "decoder_attention_mask": there.long()}
    result = theirs(ids, attention_mask=real.long(), output_hidden_states=True, **told)
    for number, (a, b) in enumerate(zip(ours.encoder.states(ours.embedder(source)), result.encoder_hidden_states, strict=True)):
        same(f"encoder state {number}", a.data[real], b[real])
    memory = ours.memory(Batch({"source": source}, len(ids)))
    hidden = ours.decode(Seq(target, there), memory).hidden.data
    same("decoder state", hidden[there], result.decoder_hidden_states[-1][there])
    if "logits" in result:
        same("token logits", ours.head(hidden)[there], result.logits[there])
        start = theirs.config.decoder_start_token_id
        # without cache: theirs has as many layers as the encoder, and fails where the decoder has more
        written = theirs.generate(ids, attention_mask=real.long(), max_new_tokens=6, do_sample=False, use_cache=False)
        compare_texts(ours, memory, Seq(torch.full((len(ids), 1), start)), written[:, 1:])


def compare_texts(ours: Any, memory: Any, prompt: Seq, theirs: Tensor) -> None:
    """Greedy texts, up to EOS. weft never generates padding and BOS, so both are ordinary ids here."""
    ours.target = dataclasses.replace(ours.target, special=Special(pad=-1, bos=-1, eos=EOS, unk=-1, mask=-1, cls=-1, sep=-1))
    found = GreedySearch()(ours, memory, prompt=prompt, limits=[6] * prompt.rows)
    for row, (hypothesis,) in zip(theirs.tolist(), found, strict=True):
        expected = row[: row.index(EOS)] if EOS in row else row
        same("greedy text", hypothesis.ids, expected)


def compare_image(theirs: Any, ours: Any, seed: int) -> None:
    """Features or class logits of an image."""
    size = theirs.config.image_size
    image = torch.randn((2, theirs.config.num_channels, size, size), generator=torch.Generator().manual_seed(seed))
    result, x = theirs(image), Seq(image)
    if "logits" in result:
        same("class logits", ours.classifier(ours.features(x)), result.logits)
    else:
        same("hidden state", ours.encode(x).data, result.last_hidden_state)
        if result.pooler_output is not None:
            same("pooled", ours.features(x), result.pooler_output)


def compare_refusal(theirs: Any, folder: Path, ids: Tensor) -> None:
    """A model whose forward pass fails in transformers: weft must refuse to load it, and name the labels."""
    for package, call in (("transformers", lambda: theirs(ids)), ("weft", lambda: load(folder))):
        try:
            call()
        except ValueError as error:
            if package == "weft" and f"{theirs.config.num_labels} labels" not in str(error):
                raise DifferenceError(f"refused for another reason: {error}") from None
        else:
            raise DifferenceError(f"{package} accepts question answering with {theirs.config.num_labels} labels")


def compare_folder(theirs: Any, folder: Path, out: Path) -> None:
    """Saved by weft: the same config.json and tensors; saved again: the same bytes; transformers loads the same weights."""
    one = load(folder).save(out / "one")
    two = load(one).save(out / "two")
    for name in ("config.json", "model.safetensors"):
        same(f"{name}, saved again", (two / name).read_bytes() == (one / name).read_bytes(), True)
    before, after = (json.loads((path / "config.json").read_text()) for path in (folder, one))
    same("config.json", after, {key: value for key, value in before.items() if key not in FILE_KEYS})
    first, second = (load_file(path / "model.safetensors") for path in (folder, one))
    same("tensor names", sorted(second), sorted(first))
    for name, tensor in first.items():
        same(name, torch.equal(second[name], tensor), True)


def compare_model(family: str, rng: random.Random, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The comparisons of one random model: (kind, comparison)."""
    seed = rng.randrange(10**6)
    theirs = randomize(FAMILIES[family](rng), seed)
    theirs.save_pretrained(folder / "theirs")
    lengths = [LENGTH, *(rng.randint(2, LENGTH) for _ in range(2))]
    ids = torch.randint(3, VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(seed))
    real = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    ids = torch.where(real, ids, PAD)

    def outputs() -> None:
        ours: Any = load(folder / "theirs").model
        if family == "vit":
            compare_image(theirs, ours, seed)
        elif family in ("gpt", "gpt2", "llama", "mistral", "qwen2"):
            compare_decoder(theirs, ours, ids, real)
        elif family in ("t5", "mt5", "bart"):
            compare_pair(theirs, ours, ids, real)
        else:
            compare_encoder(theirs, ours, ids, real)

    if type(theirs).__name__.endswith("ForQuestionAnswering") and theirs.config.num_labels != 2:
        yield f"{family} refusal", lambda: compare_refusal(theirs, folder / "theirs", ids)
        return
    yield f"{family} outputs", outputs
    yield f"{family} save", lambda: compare_folder(theirs, folder / "theirs", folder)


# ----------------------------------------------------------------------------------------------------------- tokenizers

PARTS = [
    *(
        "low lower slowest",
        "Don't",
        "naïve Café",
        "Straße",
        "12.50 €",
        "漢字 仮名",
        "한국어",
        "🙂👩‍👧🏽",
        "e\u0301",
        "a\u00a0b\u200b",
        "İ ẞ ﬁ",
    ),
    *(" ", "  ", "\t", "\n", "\r\n", "\u3000", "\ufeff", "\x07", "'s", "``x''", "...", "--", "_", "@", "##s", "Ġ", "▁"),
    *("<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "<extra_id_0>", "<extra_id_7>", "</w>"),
]
CORPUS = [part for part in PARTS if "<" not in part and "[" not in part] * 3


def strings(rng: random.Random, count: int) -> list[str]:
    """Random strings: empty, spaces, Unicode, names of special tokens."""
    return ["", " ", *("".join(rng.choices([*PARTS, *"abcXYZ .,é"], k=rng.randint(1, 8))) for _ in range(count))]


def bpe(suffix: str = "") -> dict[str, Any]:
    """Vocabulary and merges of a BPE, byte-level or GPT's."""
    inner = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix=suffix) if suffix else models.BPE())
    if suffix:
        inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
        options: dict[str, Any] = {"special_tokens": ["<unk>"], "end_of_word_suffix": suffix}
    else:
        inner.pre_tokenizer = pre_tokenizers.ByteLevel()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        options = {"special_tokens": special, "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    inner.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=360, show_progress=False, **options))
    return json.loads(inner.to_str())["model"]


def write_bpe(folder: Path, suffix: str = "", **config: Any) -> None:
    """vocab.json, merges.txt and tokenizer_config.json."""
    model = bpe(suffix)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def byte_level(rng: random.Random, folder: Path) -> Any:
    """RoBERTa's two files, or all that transformers writes for them."""
    write_bpe(folder, tokenizer_class="RobertaTokenizer", add_prefix_space=rng.random() < 0.5)
    theirs = hf.RobertaTokenizer.from_pretrained(folder)
    if rng.random() < 0.5:
        theirs.save_pretrained(folder)
    return theirs


def gpt(rng: random.Random, folder: Path) -> Any:
    """GPT's two files, or all that transformers writes for them."""
    write_bpe(folder, "</w>", tokenizer_class="OpenAIGPTTokenizer")
    theirs = hf.OpenAIGPTTokenizer.from_pretrained(folder)
    if rng.random() < 0.5:
        theirs.save_pretrained(folder)
    return theirs


def byt5(rng: random.Random, folder: Path) -> Any:
    """ByT5's files, without a vocabulary."""
    theirs = hf.ByT5Tokenizer(extra_ids=rng.choice([125, 125, 10]))
    theirs.save_pretrained(folder)
    return theirs


def wordpiece(rng: random.Random, folder: Path) -> Any:
    """BERT's vocab.txt, or a tokenizer.json, with random options."""
    letters = sorted({c for text in CORPUS for c in text if not c.isspace() and c.isprintable()} | set("abcxyz"))
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{c}" for c in letters),
        "low",
        "slow",
        "##er",
        "##est",
    ]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    options = {
        "do_lower_case": rng.random() < 0.5,
        "strip_accents": rng.choice([None, True, False]),
        "tokenize_chinese_chars": rng.random() < 0.5,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **options}))
    theirs = hf.BertTokenizer.from_pretrained(folder)
    if rng.random() < 0.5:
        theirs.save_pretrained(folder)
    return theirs


def mpnet_wordpiece(rng: random.Random, folder: Path) -> Any:
    """MPNet's vocab.txt with the names of its special tokens, or all that transformers writes."""
    letters = sorted({c for text in CORPUS for c in text if not c.isspace() and c.isprintable()} | set("abcxyz"))
    pieces = ["<s>", "<pad>", "</s>", "[UNK]", *letters, *(f"##{c}" for c in letters), "low", "slow", "##er", "##est", "<mask>"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    names = {"cls": "<s>", "bos": "<s>", "sep": "</s>", "eos": "</s>", "pad": "<pad>", "unk": "[UNK]", "mask": "<mask>"}
    config = {"tokenizer_class": "MPNetTokenizer", "do_lower_case": rng.random() < 0.5}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {f"{key}_token": name for key, name in names.items()}))
    theirs = hf.MPNetTokenizer.from_pretrained(folder)
    if rng.random() < 0.5:
        theirs.save_pretrained(folder)
    return theirs


def unigram(rng: random.Random, folder: Path) -> Any:
    """XLM-R's tokenizer.json, from a unigram model."""
    inner = tokenizers.Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    size = rng.choice([120, 160])
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False)
    inner.train_from_iterator(CORPUS, trainer)
    vocabulary = [(piece, score) for piece, score in json.loads(inner.to_str())["model"]["vocab"]]
    theirs = hf.XLMRobertaTokenizer(vocab=[*vocabulary, ("<mask>", 0.0)])
    theirs.save_pretrained(folder)
    return theirs


def templates(rng: random.Random, folder: Path) -> Any:
    """Words with random templates of one text and of two."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "low", "lower", "Don't", "a", "b"]
    inner = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.WhitespaceSplit(), decoders.Fuse()
    inner.add_special_tokens([AddedToken(word) for word in words[:5]])

    def template(*texts: str) -> str:
        extra = [rng.choice(["[CLS]", "[SEP]", "[MASK]"]) for _ in range(rng.randint(0, 4))]
        parts = [*texts, *extra]
        rng.shuffle(parts)
        return " ".join(f"{part}:{rng.choice([0, 0, 1, 2])}" for part in parts)

    special = [(word, i) for i, word in enumerate(words[:5])]
    inner.post_processor = processors.TemplateProcessing(single=template("$A"), pair=template("$A", "$B"), special_tokens=special)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    theirs = hf.PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs)
    theirs.save_pretrained(folder)
    return theirs


TOKENIZERS = {
    "byte-level": byte_level,
    "gpt": gpt,
    "byt5": byt5,
    "wordpiece": wordpiece,
    "mpnet": mpnet_wordpiece,
    "unigram": unigram,
    "templates": templates,
}


def compare_tokenizer(kind: str, rng: random.Random, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The comparisons of one random tokenizer folder: a string each, and frames."""
    theirs = TOKENIZERS[kind](rng, folder)
    ours = PretrainedTokenizer(from_=str(folder))
    texts = strings(rng, 30)
    for text in texts:
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        yield f"{kind} strings", lambda text=text, expected=expected: same(repr(text), ours.encode(text), expected)
    empty_second, ended = [rng.choice(texts), ""], [rng.choice(texts) + "</s>"]
    for given in ([rng.choice(texts)], rng.choices(texts, k=2), rng.choices(texts, k=2), empty_second, ended, [*ended, "b"]):
        yield f"{kind} frames", lambda given=given: compare_frame(ours, theirs, given)


def compare_frame(ours: PretrainedTokenizer, theirs: Any, given: list[str]) -> None:
    """Ids and segments of one text or two with special tokens. Theirs are those of a batch: a pair with an empty second text is
    one text where it is encoded alone, and a pair in a batch."""
    batch = theirs(*([text] for text in given), return_token_type_ids=True)
    expected = {name: values[0] for name, values in batch.items()}
    if isinstance(theirs, hf.ByT5Tokenizer):
        expected = with_every_eos(theirs, given, expected)
    framed = ours.frame.around([np.array(ours.encode(text), np.int64) for text in given])
    ids = framed.ids if isinstance(framed, MarkedIds) else framed
    same(f"frame of {given}", ids.tolist(), expected["input_ids"])
    segment = framed.marks["segment"] if isinstance(framed, MarkedIds) else np.zeros(len(ids), int)
    same(f"segments of {given}", segment.tolist(), expected["token_type_ids"])


def with_every_eos(theirs: Any, given: list[str], expected: dict[str, list[int]]) -> dict[str, list[int]]:
    """ByT5's ids with an EOS after each text. Known difference: after a text that ends with the name of EOS, transformers
    omits it in this class, and warns that it may add it in the future; weft adds it, as for every other model."""
    ids = [theirs(text, add_special_tokens=False)["input_ids"] for text in given]
    omitted = [text for text in ids if text[-1:] == [theirs.eos_token_id]]
    same("EOS omitted by transformers", len(expected["input_ids"]), sum(map(len, ids)) + len(given) - len(omitted))
    whole = [number for text in ids for number in (*text, theirs.eos_token_id)]
    return {"input_ids": whole, "token_type_ids": [0] * len(whole)}


# ----------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.equality", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="random models, each with a random tokenizer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    begun = time.monotonic()
    for case in range(options.cases):
        rng = random.Random(f"{options.seed}-{case}")
        family, kind = list(FAMILIES)[case % len(FAMILIES)], list(TOKENIZERS)[case % len(TOKENIZERS)]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            (Path(folder) / "tokenizer").mkdir()
            comparisons = [*compare_model(family, rng, Path(folder)), *compare_tokenizer(kind, rng, Path(folder) / "tokenizer")]
            for name, comparison in comparisons:
                try:
                    comparison()
                    tally[name]["equal"] += 1
                except ValueError as error:
                    tally[name]["refused"] += 1
                    print(f"case {case}: {name}: refused: {str(error).replace(folder, '')[:300]}")
                except DifferenceError as error:
                    tally[name]["different"] += 1
                    print(f"case {case}: {name}: {error}")
    for name, counts in sorted(tally.items()):
        print(f"{name:24} equal {counts['equal']:6}  different {counts['different']:4}  refused {counts['refused']:4}")
    total = sum(tally.values(), collections.Counter())
    print(f"{'total':24} equal {total['equal']:6}  different {total['different']:4}  refused {total['refused']:4}", end="")
    print(f"  ({options.cases} cases, {time.monotonic() - begun:.0f} s)")
    raise SystemExit(bool(total["different"]))


if __name__ == "__main__":
    main()
