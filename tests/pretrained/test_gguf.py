"""GGUF files as published models: the same outputs as transformers, the tokenizer of the metadata, and damaged files."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import tokenizers
import torch
import transformers as hf
from safetensors.torch import load_file
from tokenizers import models, pre_tokenizers, trainers
from torch import Tensor
from transformers.convert_slow_tokenizer import TikTokenConverter

from weft.core.seq import Seq
from weft.data import PretrainedTokenizer
from weft.data.tokenizers.gguf_tokenizer import PRE_TOKENIZERS, from_metadata
from weft.inference.convert import to_published, to_run
from weft.inference.load import load as open_run
from weft.models.zoo.gguf_names import TENSORS, llama3_scaling
from weft.pretrained import PublishedModel, load

CORPUS = ["low lower lowest", "I have 1234 dogs, don't I?", "naïve 漢字\n\n  slow", "DON'T 12345"] * 3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
    "rms_norm_eps": 1e-5,
}


def bpe() -> tuple[list[str], list[str]]:
    """Tokens by id, special ones first, and merges of a byte-level BPE."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, show_progress=False, special_tokens=SPECIAL, initial_alphabet=alphabet)
    inner.train_from_iterator(CORPUS, trainer)
    model = json.loads(inner.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return sorted(model["vocab"], key=model["vocab"].get), merges


TOKENS, MERGES = bpe()
PERMUTED = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}


def permuted(tensor: Tensor, heads: int) -> Tensor:
    """llama.cpp's order of the rows of queries and keys: feature i of a head is followed by feature i + K / 2."""
    rows = [
        head * size + half * (size // 2) + i
        for head in range(heads)
        for size in [len(tensor) // heads]
        for i in range(size // 2)
        for half in (0, 1)
    ]
    return tensor[rows]


def theirs_of(**changes: Any) -> Any:
    """A random Llama or Qwen2 of transformers."""
    family = changes.pop("family", "Llama")
    config = getattr(hf, f"{family}Config")(
        **{**SIZES, "vocab_size": len(TOKENS), "bos_token_id": 1, "eos_token_id": 2, **changes}
    )
    torch.manual_seed(0)
    model = getattr(hf, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def write(
    path: Path,
    theirs: Any,
    kind: str = "F32",
    *,
    values: dict[str, Any] = {},
    without: tuple[str, ...] = (),
    tensors: dict[str, Any] = {},
    renamed: dict[str, str] = {},
    pre: str = "smollm",
) -> dict[str, Tensor]:
    """Write a model as llama.cpp's conversion does; return its tensors after quantization, by the names of transformers."""
    config, architecture = theirs.config, theirs.config.model_type
    rope = config.rope_parameters
    meta: dict[str, Any] = {
        f"{architecture}.block_count": config.num_hidden_layers,
        f"{architecture}.context_length": config.max_position_embeddings,
        f"{architecture}.embedding_length": config.hidden_size,
        f"{architecture}.feed_forward_length": config.intermediate_size,
        f"{architecture}.attention.head_count": config.num_attention_heads,
        f"{architecture}.attention.head_count_kv": config.num_key_value_heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{architecture}.rope.freq_base": rope["rope_theta"],
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in TOKENS],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": "{{ messages }}",
        **values,
    }
    writer = gguf.GGUFWriter(path, meta.pop("general.architecture", architecture))
    for key, value in meta.items():
        if key not in without:
            add(writer, key, value)
    stored: dict[str, Tensor] = {}
    names = {new: old for old, new in TENSORS.items()}
    own = {key: p.detach() for key, p in theirs.named_parameters()}
    for name, tensor in own.items():
        parts = name.split(".")
        number, end = next((p for p in parts if p.isdigit()), "#"), parts[-1]
        plain = name.replace(f".{number}.", ".#.")
        old = names.get(plain) or names[plain.removesuffix(end) + "*"].replace("*", end)
        old = old.replace("#", number)
        key = next((key for part, key in PERMUTED.items() if f".{part}." in old and architecture == "llama"), None)
        moved = tensor if key is None else permuted(tensor, getattr(config, key))
        quantization = gguf.GGMLQuantizationType[kind if tensor.ndim > 1 else "F32"]
        data = gguf.quantize(moved.numpy(), quantization)
        stored[name] = tensor + torch.from_numpy(
            np.array(unpermuted(gguf.dequantize(data, quantization) - moved.numpy(), config, key))
        )
        writer.add_tensor(renamed.get(old, old), data, raw_dtype=quantization)
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.asarray(tensor, np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return stored


def unpermuted(error: np.ndarray, config: Any, key: str | None) -> np.ndarray:
    """The rounding errors in the order of transformers."""
    if key is None:
        return error
    order = permuted(torch.arange(len(error)), getattr(config, key)).numpy()
    found = np.empty_like(error)
    found[order] = error
    return found


def add(writer: Any, key: str, value: Any) -> None:
    kinds: dict[type, Callable[..., None]] = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    kinds[type(value)](key, value)


def logits(ours: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return ours.head(ours.decode(Seq(ids), None).hidden.data)


def assert_equal(folder: Path, theirs: Any) -> None:
    """The same logits as transformers, and loaded completely."""
    loaded, ids = load(folder), torch.randint(3, len(TOKENS), (2, 12), generator=torch.Generator().manual_seed(1))
    assert not loaded.report.new and not loaded.report.unused
    with torch.no_grad():
        expected = theirs(ids).logits
    assert (logits(loaded.model, ids) - expected).abs().max() <= 1e-4 * expected.abs().max()


MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "num_key_value_heads": 4},
    "qwen2": {"family": "Qwen2", "rope_parameters": {"rope_theta": 1e6}},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_has_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = theirs_of(**MODELS[name])
    write(tmp_path / "model.gguf", theirs)
    assert_equal(tmp_path / "model.gguf", theirs)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_quantized_weights_are_those_that_the_file_has(kind: str, tmp_path: Path) -> None:
    theirs = theirs_of()
    stored = write(tmp_path / "model.gguf", theirs, kind)
    assert not all(torch.equal(stored[key], p) for key, p in theirs.named_parameters())
    theirs.load_state_dict(stored)
    assert_equal(tmp_path / "model.gguf", theirs)


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
ROPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "linear": ({"factor": 4.0}, {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
    "yarn": (
        {"factor": 4.0, "original_max_position_embeddings": 10},
        {
            "llama.rope.scaling.type": "yarn",
            "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.original_context_length": 10,
        },
    ),
    "llama3": (LLAMA3, {}),
}


@pytest.mark.parametrize("name", ROPES)
def test_scaled_frequencies(name: str, tmp_path: Path) -> None:
    options, values = ROPES[name]
    theirs = theirs_of(rope_parameters={"rope_type": name, "rope_theta": 500_000.0, **options})
    factors = {}
    if name == "llama3":  # written as divisors of the frequencies
        plain = 500_000.0 ** -(torch.arange(0, 8, 2) / 8)
        factors = {"rope_freqs.weight": plain / theirs.model.rotary_emb.inv_freq}
        assert factors["rope_freqs.weight"].max() == 8
    write(tmp_path / "model.gguf", theirs, values=values, tensors=factors)
    assert_equal(tmp_path / "model.gguf", theirs)
    assert PublishedModel(tmp_path / "model.gguf").config["rope_scaling"] == {"rope_type": name, **options}


def test_other_frequencies_are_refused() -> None:
    for factors in ([1.0, 1.0, 2.0, 9.0], [1.0] * 4, [1.0, float("nan")] * 2):
        with pytest.raises(ValueError, match=r"'rope_freqs.weight' does not have the frequencies of Llama 3.1"):
            llama3_scaling(np.array(factors, np.float32), 500_000.0)


def test_a_folder_with_one_file_is_that_model(tmp_path: Path) -> None:
    theirs = theirs_of()
    write(tmp_path / "a.gguf", theirs)
    assert_equal(tmp_path, theirs)
    assert PretrainedTokenizer(from_=str(tmp_path)).vocab == len(TOKENS)
    write(tmp_path / "b.gguf", theirs)
    with pytest.raises(ValueError, match=r"has 2 GGUF files \(a.gguf, b.gguf\); name one of them"):
        load(tmp_path)


def test_it_is_saved_in_the_hugging_face_layout(tmp_path: Path) -> None:
    theirs = theirs_of()
    stored = write(tmp_path / "model.gguf", theirs, "Q8_0")
    one = load(tmp_path / "model.gguf").save(tmp_path / "one")
    assert dict.fromkeys(stored, True) == {
        key: torch.equal(t, stored[key]) for key, t in load_file(one / "model.safetensors").items()
    }
    two = load(one).save(tmp_path / "two")
    files = sorted(path.name for path in one.iterdir())
    assert files == ["SHA256SUMS", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert all((one / name).read_bytes() == (two / name).read_bytes() for name in files)
    again = hf.AutoModelForCausalLM.from_pretrained(one).eval()
    theirs.load_state_dict(stored)
    ids = torch.arange(3, 20)[None]
    with torch.no_grad():
        assert torch.equal(again(ids).logits, theirs(ids).logits)
    told = json.loads((one / "tokenizer_config.json").read_text())
    assert (told["bos_token"], told["eos_token"], told["chat_template"]) == ("<|im_start|>", "<|im_end|>", "{{ messages }}")
    mine, fast = PretrainedTokenizer(from_=str(tmp_path / "model.gguf")), hf.AutoTokenizer.from_pretrained(one)
    for text in (*CORPUS, "<|im_start|>low<|im_end|>"):
        assert mine.encode(text) == fast(text)["input_ids"] == PretrainedTokenizer(from_=str(one)).encode(text)
    assert mine.special == PretrainedTokenizer(from_=str(one)).special


def test_it_becomes_a_run_that_continues_texts_alike_and_is_published_again(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", theirs_of())
    found = open_run(tmp_path / "model.gguf").generate(["low", "slow dogs"])
    assert open_run(to_run(tmp_path / "model.gguf", tmp_path / "run")).generate(["low", "slow dogs"]) == found
    written = to_published(tmp_path / "run", tmp_path / "published")
    saved = load(tmp_path / "model.gguf").save(tmp_path / "saved")
    for name in ("config.json", "tokenizer_config.json"):
        assert json.loads((written / name).read_text()) == json.loads((saved / name).read_text())
    assert (written / "model.safetensors").read_bytes() == (saved / "model.safetensors").read_bytes()
    assert (written / "tokenizer.json").read_bytes() == (saved / "tokenizer.json").read_bytes()


# ----------------------------------------------------------------------------------------------------------- tokenizers

META: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": np.array([3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)), np.int32),
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def texts() -> list[str]:
    rng, parts = (
        random.Random(0),
        [*CORPUS, *SPECIAL, " ", "  ", "\n", "\r\n", "'s", "'LL", "12", "3", "é", "e\u0301", "...", "_"],
    )
    return ["".join(rng.choices(parts, k=rng.randint(1, 6))) for _ in range(60)]


@pytest.mark.parametrize(("pre", "build"), [("gpt-2", hf.GPT2Tokenizer), ("qwen2", hf.Qwen2Tokenizer)])
def test_texts_are_split_as_in_transformers(pre: str, build: Any) -> None:
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    theirs = build(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in MERGES], unk_token=SPECIAL[0])
    theirs.add_special_tokens({"additional_special_tokens": SPECIAL})
    ours = from_metadata({**META, "tokenizer.ggml.pre": pre})
    for text in texts():
        assert ours.encode(text).ids == theirs(text)["input_ids"], text


def test_the_pattern_of_llama_3_is_that_of_transformers() -> None:
    state = json.loads(from_metadata({**META, "tokenizer.ggml.pre": "llama-bpe"}).to_str())
    pattern = TikTokenConverter(vocab_file="none").pattern
    assert state["pre_tokenizer"]["pretokenizers"][0]["pattern"] == {"Regex": pattern}
    assert state["model"]["ignore_merges"] and state["post_processor"]["single"][0] == {
        "SpecialToken": {"id": SPECIAL[1], "type_id": 0}
    }


def test_user_defined_tokens_are_text_and_control_tokens_are_not() -> None:
    types = META["tokenizer.ggml.token_type"].copy()
    types[TOKENS.index("low")] = 4
    added = from_metadata({**META, "tokenizer.ggml.token_type": types}).get_added_tokens_decoder()
    assert {token.content: token.special for token in added.values()} == {**dict.fromkeys(SPECIAL, True), "low": False}


def test_digits_are_single_tokens() -> None:
    for pre in (name for name, style in PRE_TOKENIZERS.items() if style == "digits"):
        assert from_metadata({**META, "tokenizer.ggml.pre": pre}).encode("a 1234").tokens[-4:] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("bos", "eos"), [(False, False), (True, False), (True, True), (False, True)])
def test_bos_and_eos_are_added_as_in_the_file(bos: bool, eos: bool) -> None:
    flags = {"tokenizer.ggml.add_bos_token": bos, "tokenizer.ggml.add_eos_token": eos}
    inner = from_metadata({**META, **flags})
    (a,), before, after = inner.encode("a", add_special_tokens=False).ids, [1] * bos, [2] * eos
    assert inner.encode("a").ids == [*before, a, *after]
    assert inner.encode("a", "a").ids == [*before, a, *after, *before, a, *after]


def sentencepiece_metadata(folder: Path, prefix: bool) -> tuple[dict[str, Any], Any]:
    """A BPE of SentencePiece with bytes, as Llama's, in metadata and by the package."""
    (folder / "corpus.txt").write_text("\n".join(CORPUS))
    options = {"model_type": "bpe", "vocab_size": 330, "byte_fallback": True, "remove_extra_whitespaces": False}
    options |= {"normalization_rule_name": "identity", "add_dummy_prefix": prefix, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / "m"), **options)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
    ids = range(theirs.vocab_size())
    kinds = [2 if theirs.is_unknown(i) else 3 if theirs.is_control(i) else 6 if theirs.is_byte(i) else 1 for i in ids]
    meta = {
        "model": "llama",
        "tokens": [theirs.id_to_piece(i) for i in ids],
        "scores": np.array([theirs.get_score(i) for i in ids], np.float32),
        "token_type": np.array(kinds, np.int32),
        "add_space_prefix": prefix,
        "bos_token_id": theirs.bos_id(),
        "eos_token_id": theirs.eos_id(),
    }
    return {f"tokenizer.ggml.{key}": value for key, value in meta.items()}, theirs


@pytest.mark.parametrize("prefix", [True, False])
def test_a_sentencepiece_tokenizer_is_that_of_the_package(prefix: bool, tmp_path: Path) -> None:
    meta, theirs = sentencepiece_metadata(tmp_path, prefix)
    inner = from_metadata(meta)
    for text in (text for text in texts() if not {*SPECIAL} & {text} and "<|" not in text):
        found = inner.encode(text)
        assert found.ids == [theirs.bos_id(), *theirs.encode(text)], text
        assert inner.decode(found.ids) == text
    for wrong in (None, np.arange(330), np.ones(3, np.float32), np.full(330, np.nan, np.float32)):
        with pytest.raises(ValueError, match=r"tokenizer.ggml.scores must have a number for each of the 330 tokens"):
            from_metadata({**meta, "tokenizer.ggml.scores": wrong})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": "bert"}, r"tokenizer.ggml.model is 'bert'; supported are 'gpt2' .* and 'llama'"),
    ({"pre": "other"}, r"tokenizer.ggml.pre is 'other'; supported are gpt-2, smollm"),
    ({"tokens": None}, "tokenizer.ggml.tokens must be a list of strings, but is missing"),
    ({"tokens": np.arange(3)}, "tokenizer.ggml.tokens must be a list of strings, but is ndarray"),
    ({"tokens": [*TOKENS[:-1], "a"]}, "tokenizer.ggml.tokens has 'a' more than once"),
    ({"merges": ["ab"]}, "tokenizer.ggml.merges has 'ab', but a merge has two symbols"),
    ({"merges": ["a b c"]}, "tokenizer.ggml.merges has 'a b c', but"),
    ({"token_type": np.arange(3)}, f"must have an integer for each of the {len(TOKENS)} tokens"),
    ({"bos_token_id": len(TOKENS)}, f"tokenizer.ggml.bos_token_id is {len(TOKENS)}, but must be an id below {len(TOKENS)}"),
    ({"eos_token_id": "2"}, "tokenizer.ggml.eos_token_id is 2, but must be an id"),
    ({"add_bos_token": 1}, "tokenizer.ggml.add_bos_token is '1', but must be true or false"),
    ({"bos_token_id": None, "add_bos_token": True}, "add_bos_token is true, but tokenizer.ggml.bos_token_id is missing"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_problems_of_a_tokenizer_are_located(changes: dict[str, Any], message: str) -> None:
    meta = {**META, **{f"tokenizer.ggml.{key}": value for key, value in changes.items()}}
    with pytest.raises(ValueError, match=message):
        from_metadata({key: value for key, value in meta.items() if value is not None})


# -------------------------------------------------------------------------------------------------------- damaged files

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": (
        {"values": {"general.architecture": "bert\x1b"}},
        r"unknown general.architecture 'bert\\x1b' (supported: llama, qwen2)",
    ),
    "missing": ({"without": ("llama.block_count",)}, "metadata 'llama.block_count' is missing"),
    "as text": ({"values": {"llama.embedding_length": "32"}}, "metadata 'llama.embedding_length' is 32, but must be an integer"),
    "by layer": (
        {"values": {"llama.attention.head_count": [4, 2]}},
        "metadata 'llama.attention.head_count' is [4 2], but must be",
    ),
    "huge": ({"values": {"llama.block_count": 10**9}}, "num_hidden_layers is 1000000000, but it must be"),
    "no heads": ({"values": {"llama.attention.head_count": 0}}, "num_attention_heads is 0, but it must be"),
    "odd heads": ({"values": {"llama.attention.head_count": 5}}, "heads"),
    "epsilon": ({"values": {"llama.attention.layer_norm_rms_epsilon": float("nan")}}, "is nan, but must be a number"),
    "experts": ({"values": {"llama.expert_count": 8}}, "metadata 'llama.expert_count' is 8, but only 0 is supported"),
    "partial": ({"values": {"llama.rope.dimension_count": 4}}, "'llama.rope.dimension_count' is 4, but only 8 is supported"),
    "scaling": ({"values": {"llama.rope.scaling.type": "longrope"}}, "is 'longrope'; supported: none, linear, yarn"),
    "factor": ({"values": {"llama.rope.scaling.type": "linear"}}, "metadata 'llama.rope.scaling.factor' is missing"),
    "more layers": ({"values": {"llama.block_count": 900}}, "missing: model.layers.2."),
    "huge layers": ({"values": {"llama.block_count": 999, "llama.feed_forward_length": 10**6}}, "missing: model.layers.2."),
    "fewer layers": ({"values": {"llama.block_count": 1}}, "config.json has 1 layers, but the file has 2"),
    "wide": (
        {"values": {"llama.feed_forward_length": 10**6}},
        "mlp.gate_proj.weight (decoder.stack.layers.0.feedforward.gate.weight)",
    ),
    "unknown tensor": (
        {"tensors": {"blk.0.attn_q_norm.weight": [1.0]}},
        "a llama of this kind is not supported: unknown tensors blk.0.attn_q_norm.weight",
    ),
    "no embeddings": ({"renamed": {"token_embd.weight": "blk.0.ffn_norm.bias"}}, "there is no tensor 'token_embd.weight'"),
}


@pytest.mark.parametrize("name", BAD)
def test_problems_of_a_file_are_located(name: str, tmp_path: Path) -> None:
    options, message = BAD[name]
    path = tmp_path / "model.gguf"
    write(path, theirs_of(), **options)
    tracemalloc.start()
    with pytest.raises(ValueError) as caught:
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(str(path)) and message in str(caught.value) and str(caught.value).isprintable()
    assert peak < 100_000_000


def test_bit_flips_in_a_file_give_a_model_or_a_located_error(tmp_path: Path) -> None:
    path, rng = tmp_path / "model.gguf", random.Random(0)
    write(path, theirs_of(num_hidden_layers=1), "Q8_0")
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data) if rng.random() < 0.3 else 3000)] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        for read in (lambda: load(path), lambda: PretrainedTokenizer(from_=str(path)).vocab):
            try:
                read()
            except ValueError as error:
                assert str(error).startswith(str(path)), error
