"""Speed of inference compared with transformers, CTranslate2 and sentence-transformers: interleaved runs with equal outputs.

python -m benchmarks.decoding                 every case, one after another, and the table of docs/about/benchmarks.md
python -m benchmarks.decoding greedy-1        one case, whose times are recorded
python -m benchmarks.decoding --cpu           the CPU time of one thread: on a machine that others use
python -m benchmarks.decoding --table         the tables from the recorded times

Random weights of published sizes, float32, two threads. The outputs of a case are compared before its times are taken: token for
token, and vectors and probabilities to 1e-4.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.document import show
from benchmarks.published import compared, sentences
from benchmarks.results import record, recorded
from weft.blocks import onednn
from weft.core.contracts import Search
from weft.core.seq import Memory, Seq
from weft.generate import BeamSearch, GreedySearch
from weft.inference.engine import answers

THREADS, ROUNDS = 2, 7
PROMPT, NEW = 32, 32
"""Tokens of a prompt, and tokens generated from it."""
TOLERANCE = 1e-4
Side = Callable[[], Any]
Case = tuple[str, dict[str, Side], str]
"""Its description, what is timed on each side, and remarks."""


def words(size: int) -> list[str]:
    """The tokens of a vocabulary in which token i is the word ``ti``."""
    return [f"t{i}" for i in range(size)]


def save_with_tokenizer(model: Any, folder: Path, special: dict[str, int]) -> None:
    """Save a model of transformers with a tokenizer of one word per id, which CTranslate2 needs."""
    import tokenizers
    import transformers as hf

    vocabulary = {word: i for i, word in enumerate(words(model.config.vocab_size))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t0"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    names = {f"{name}_token": f"t{i}" for name, i in special.items()}
    hf.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="t0", **names).save_pretrained(folder)
    model.save_pretrained(folder)


def converted(folder: Path) -> Path:
    """The folder of the model in the format of CTranslate2."""
    from ctranslate2.converters import TransformersConverter

    out = folder / "ctranslate2"
    TransformersConverter(str(folder)).convert(str(out), quantization="float32", force=True)
    return out


def generated(model: Any, search: Search, ids: Sequence[np.ndarray], encoded: bool, start: int) -> list[list[int]]:
    """The tokens that weft generates, through the inference engine."""

    def compute(rows: list[np.ndarray], numbers: list[int]) -> list[list[int]]:
        width = max(map(len, rows))
        data = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, of_row in enumerate(rows):
            data[row, : len(of_row)], mask[row, : len(of_row)] = torch.from_numpy(of_row), True
        x = Seq(data, None if bool(mask.all()) else mask)
        limits = [NEW] * len(rows)
        if not encoded:
            return [row[0].ids for row in search(model, None, prompt=x, limits=limits)]
        memory = Memory((model.encode(x),))
        prompt = Seq(torch.full((len(rows), 1), start))
        return [row[0].ids for row in search(model, memory, prompt=prompt, limits=limits)]

    return list(answers(ids, lambda window, first: window, compute, length=len, model=model, max_tokens=2**14))


def equal(name: str, sides: dict[str, Side]) -> str:
    """Run each side once and compare its output with that of the first; returns a remark on those that differ."""
    ours, *others = sides
    wanted, different = sides[ours](), []
    for side in others:
        found = sides[side]()
        if isinstance(wanted, np.ndarray):
            difference = float(np.abs(wanted - np.asarray(found)).max())
            if not difference <= TOLERANCE:
                raise SystemExit(f"{name}: the output of {side} differs by {difference:.1e} from that of {ours}")
        elif found != wanted:
            same = sum(a == b for a, b in zip(wanted, found, strict=True))
            if side == "transformers":
                raise SystemExit(f"{name}: {same} of {len(wanted)} texts of {side} equal those of {ours}")
            different.append(f"{same} of {len(wanted)} texts of {side} are the same")
    return "; ".join(different)


def greedy(rows: int, folder: Path) -> Case:
    """GPT-2 with 124M parameters, greedy decoding."""
    import ctranslate2
    import transformers as hf

    from weft.pretrained import load

    config: Any = hf.GPT2Config(bos_token_id=50256, eos_token_id=50256)
    theirs: Any = hf.GPT2LMHeadModel(config).eval()
    save_with_tokenizer(theirs, folder, {"bos": 50256, "eos": 50256})
    theirs.generation_config.eos_token_id = None  # random weights end nowhere; weft and CTranslate2 check it
    ours: Any = load(folder).model.eval()
    fast = ctranslate2.Generator(
        str(converted(folder)), device="cpu", compute_type="float32", intra_threads=torch.get_num_threads()
    )
    rng = np.random.default_rng(0)
    ids = [rng.integers(1000, 50000, PROMPT) for _ in range(rows)]
    batch = torch.from_numpy(np.stack(ids))
    tokens = [[f"t{i}" for i in row] for row in ids]

    def by_transformers() -> list[list[int]]:
        options: Any = {"do_sample": False, "pad_token_id": 50256, "attention_mask": torch.ones_like(batch)}
        with torch.inference_mode():
            return theirs.generate(batch, max_new_tokens=NEW, **options)[:, PROMPT:].tolist()

    def by_ctranslate2() -> list[list[int]]:
        found = fast.generate_batch(tokens, max_length=NEW, beam_size=1, sampling_topk=1, include_prompt_in_result=False)
        return [one.sequences_ids[0] for one in found]

    search = GreedySearch(max_length=NEW)
    sides = {
        "weft": lambda: generated(ours, search, ids, False, 0),
        "transformers": by_transformers,
        "ctranslate2": by_ctranslate2,
    }
    return f"GPT-2 124M, greedy, batch of {rows}", sides, f"{bound(ours, rows)}"


def beam(folder: Path) -> Case:
    """An encoder-decoder of 6 + 6 layers and 512 dimensions (BART family), beam search."""
    import ctranslate2
    import transformers as hf

    from weft.pretrained import load

    size: Any = {"encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048}
    heads: Any = {"encoder_attention_heads": 8, "decoder_attention_heads": 8, "forced_eos_token_id": None}
    config: Any = hf.BartConfig(vocab_size=32000, d_model=512, max_position_embeddings=256, init_std=0.06, **size, **heads)
    config.update({"normalize_before": False, "normalize_embedding": True})  # what CTranslate2's converter asks for
    theirs: Any = hf.BartForConditionalGeneration(config).eval()
    theirs.final_logits_bias[0, config.eos_token_id] = -1000.0  # random weights would end anywhere
    save_with_tokenizer(theirs, folder, {"bos": 0, "pad": 1, "eos": 2})
    ours: Any = load(folder).model.eval()
    fast = ctranslate2.Translator(
        str(converted(folder)), device="cpu", compute_type="float32", intra_threads=torch.get_num_threads()
    )
    rng = np.random.default_rng(0)
    ids = [np.append(rng.integers(100, 32000, int(n)), 2) for n in rng.integers(20, 40, 16)]
    batch = torch.full((len(ids), max(map(len, ids))), 1)
    for row, of_row in enumerate(ids):
        batch[row, : len(of_row)] = torch.from_numpy(of_row)
    tokens = [[f"t{i}" for i in row] for row in ids]

    def by_transformers() -> list[list[int]]:
        options: Any = {"num_beams": 4, "do_sample": False, "early_stopping": True, "length_penalty": 1.0}
        with torch.inference_mode():
            found = theirs.generate(batch, attention_mask=(batch != 1).long(), max_new_tokens=NEW, **options)
        return found[:, 1:].tolist()

    def by_ctranslate2() -> list[list[int]]:
        found = fast.translate_batch(tokens, beam_size=4, max_decoding_length=NEW, return_end_token=False)
        return [[int(token[1:]) for token in one.hypotheses[0]] for one in found]

    search = BeamSearch(beams=4, length_penalty=1.0, max_length=NEW)
    sides = {
        "weft": lambda: generated(ours, search, ids, True, config.decoder_start_token_id),
        "transformers": by_transformers,
        "ctranslate2": by_ctranslate2,
    }
    return "encoder-decoder, 6 + 6 layers, 512 dimensions, 4 beams, batch of 16", sides, ""


def embed(folder: Path) -> Case:
    """1,000 sentences of mixed length by MiniLM."""
    from sentence_transformers import SentenceTransformer

    from weft.core.hub import find_model
    from weft.inference.embedding import open_embedder

    ours, theirs = open_embedder("minilm", "cpu"), SentenceTransformer(str(find_model("minilm")), device="cpu")
    texts = sentences()
    sides = {
        "weft": lambda: ours(texts),
        "sentence-transformers": lambda: theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False),
    }
    return "MiniLM, embedding 1,000 texts of 3 to 120 words", sides, ""


def predict(folder: Path) -> Case:
    """Classification of 1,000 texts of mixed length at the size of MiniLM."""
    import transformers as hf

    import weft
    from weft.core.hub import find_model

    source = str(find_model("minilm"))
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(source)
    config: Any = hf.AutoConfig.from_pretrained(source, num_labels=3)
    theirs: Any = hf.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ours, texts = weft.load(folder, device="cpu"), sentences()

    def by_weft() -> np.ndarray:
        return np.array([list(one.probabilities.values()) for one in ours.predictions(texts)])

    def by_transformers() -> np.ndarray:
        found: list[Tensor] = []
        with torch.inference_mode():
            for first in range(0, len(texts), 32):
                batch = tokenizer(texts[first : first + 32], padding=True, truncation=True, max_length=512, return_tensors="pt")
                found.append(theirs(**batch).logits.softmax(-1))
        return torch.cat(found).numpy()

    return "classifying 1,000 texts of 3 to 120 words", {"weft": by_weft, "transformers": by_transformers}, ""


def bound(model: Any, rows: int) -> str:
    """The least time of a step of one row: the bytes of all weights divided by the measured bandwidth of such products."""
    if rows > 1:
        return ""
    size = sum(weight.numel() for weight in model.parameters() if weight.ndim == 2) - sum(
        part.weight.numel() for part in model.modules() if type(part).__name__ == "LearnedPositionEmbedder"
    )
    bandwidth = max(gemv_bandwidth(layout) for layout in (torch.nn.functional.linear, _reordered))
    milliseconds = 4 * size / bandwidth * 1e3
    return f"bound: {4 * size / 1e6:.0f} MB of weights at {bandwidth / 1e9:.1f} GB/s are {milliseconds:.1f} ms per token"


def _reordered(x_ND: Tensor, weight_ED: Tensor) -> Tensor:
    return onednn.LINEAR(x_ND, weight_ED, None, "none", [], "")


def gemv_bandwidth(product: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Bytes per second of products of one row with weights of 3072 x 768, more of them than the caches hold."""
    weights = [torch.randn(3072, 768) for _ in range(24)]
    prepared = [onednn.REORDER(w, None) for w in weights] if product is _reordered else [w.t().contiguous().t() for w in weights]
    x_ND, fastest = torch.randn(1, 768), float("inf")
    with torch.inference_mode():
        for _ in range(20):
            started = time.perf_counter()
            for weight in prepared:
                product(x_ND, weight)
            fastest = min(fastest, time.perf_counter() - started)
    return 4 * 3072 * 768 * len(weights) / fastest


CASES: dict[str, Callable[[Path], Case]] = {
    "greedy-1": lambda folder: greedy(1, folder),
    "greedy-16": lambda folder: greedy(16, folder),
    "beam-16": beam,
    "embed": embed,
    "predict": predict,
}


def measure(case: str, cpu: bool, rounds: int = ROUNDS) -> None:
    """Compare the outputs of a case, take its times, and record them."""
    torch.manual_seed(0)
    torch.set_num_threads(1 if cpu else THREADS)
    with tempfile.TemporaryDirectory() as folder:
        name, sides, remark = CASES[case](Path(folder))
        for line in filter(None, (remark, different := equal(name, sides))):
            print(f"{name}: {line}", flush=True)
        seconds = compared(name, sides, rounds, time.process_time if cpu else time.perf_counter)
    record(_file(case, cpu), {"name": name, "seconds": seconds, "remark": remark, "different": different})


def _file(case: str, cpu: bool) -> str:
    return f"decoding-{case}{'-cpu' * cpu}"


def table(cpu: bool) -> Iterator[str]:
    """Seconds of each side, and how many times as fast as the others weft is."""
    yield "| | weft, s | peer | peer, s | ratio | CTranslate2, s | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for case in CASES:
        if (found := recorded(_file(case, cpu))) is None:
            yield f"| {case} | not measured | | | | | |"
            continue
        times: dict[str, list[float]] = found["seconds"]
        cells = [found["name"], f"{statistics.median(times['weft']):.2f}"]
        peer = next(side for side in times if side not in ("weft", "ctranslate2"))
        for side in (peer, "ctranslate2"):
            cells += [peer] if side == peer else []
            known = times.get(side)
            cells += [f"{statistics.median(known):.2f}", f"{ratio(known, times['weft']):.2f}"] if known else ["", ""]
        yield f"| {' | '.join(cells)} |"


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"cases to measure: {', '.join(CASES)} (default: all)")
    parser.add_argument("--cpu", action="store_true", help="take the CPU time of one thread")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each case")
    parser.add_argument("--table", action="store_true", help="write the tables without measuring")
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        raise SystemExit(f"unknown case {unknown[0]}; available: {', '.join(CASES)}")
    for case in [] if options.table else options.cases or CASES:
        measure(case, options.cpu, options.rounds)
    if options.table or not options.cases:
        show("decoding", table(cpu=False))
        show("decoding-cpu", table(cpu=True))


if __name__ == "__main__":
    main()
