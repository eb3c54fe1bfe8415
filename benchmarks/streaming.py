"""Memory of the commands that answer a stream of lines: ``python -m benchmarks.streaming`` (``--lines 100000``).

``weft predict`` and ``weft generate`` get lines of 1 to 30 words on standard input. The resident memory is read after every tenth
of the answers; it must not grow by more than ``GROWTH`` from the second tenth to the last. The first answers are compared with
those to each line alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding import save_with_tokenizer

GROWTH = 1.1
COMPARED = 50
"""Answers that are compared with those to each line alone."""
VOCABULARY = 500


def lines(number: int) -> list[str]:
    """Lines of 1 to 30 words of the vocabulary."""
    rng = np.random.default_rng(0)
    return [" ".join(f"t{i}" for i in rng.integers(5, VOCABULARY, int(n))) for n in rng.integers(1, 31, number)]


def classifier(folder: Path) -> None:
    """Save a small text classifier of random weights."""
    import transformers as hf

    small: Any = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "num_labels": 3}
    config: Any = hf.RobertaConfig(vocab_size=VOCABULARY, max_position_embeddings=64, pad_token_id=1, **small)
    save_with_tokenizer(hf.RobertaForSequenceClassification(config), folder, {"bos": 0, "cls": 0, "pad": 1, "eos": 2, "sep": 2})


def language_model(folder: Path) -> None:
    """Save a small language model of random weights."""
    import transformers as hf

    config = hf.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    save_with_tokenizer(hf.GPT2LMHeadModel(config), folder, {"bos": 0, "eos": 0})


def answers_of(command: list[str], texts: list[str], marks: int = 10) -> tuple[list[str], list[float]]:
    """The lines that a command prints for lines on standard input, and its resident megabytes after each tenth of them."""
    import psutil

    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdin is not None and process.stdout is not None

    def write(to: Any = process.stdin) -> None:
        with to:
            to.writelines(f"{text}\n" for text in texts)

    threading.Thread(target=write, daemon=True).start()
    measured, answers, megabytes = psutil.Process(process.pid), list[str](), list[float]()
    for answer in process.stdout:
        answers.append(answer.rstrip("\n"))
        if len(answers) % (len(texts) // marks) == 0 and len(answers) < len(texts):
            megabytes.append(measured.memory_info().rss / 2**20)
    if process.wait() or len(answers) != len(texts):
        raise SystemExit(f"weft {command[0]}: exit code {process.returncode}, {len(answers)} answers to {len(texts)} lines")
    return answers, megabytes


def measure(name: str, folder: Path, command: list[str], alone: Any, texts: list[str]) -> None:
    """Check a command: the order and values of its answers, and its memory."""
    answers, megabytes = answers_of(command, texts)
    for text, answer in zip(texts[:COMPARED], answers, strict=False):
        if answer.split("\t")[0] != alone(text):
            raise SystemExit(f"weft {name}: {answer!r} in the stream, but {alone(text)!r} for {text!r} alone")
    shown = ", ".join(f"{size:.0f}" for size in megabytes)
    print(f"weft {name}, {len(texts):,} lines: resident megabytes after each tenth: {shown}", flush=True)
    if megabytes[-1] > GROWTH * megabytes[1]:
        raise SystemExit(f"weft {name}: memory grows from {megabytes[1]:.0f} to {megabytes[-1]:.0f} MB")


def main() -> None:
    import weft
    from weft.generate import GreedySearch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000, help="lines of each stream")
    texts = lines(parser.parse_args().lines)
    with tempfile.TemporaryDirectory() as folder:
        classes, words = Path(folder) / "classifier", Path(folder) / "lm"
        classifier(classes)
        language_model(words)
        model = weft.load(classes)
        measure("predict", classes, ["predict", str(classes)], lambda text: model.predict([text])[0], texts)
        lm, search = weft.load(words), GreedySearch(max_length=4)
        command = ["generate", str(words), "--max-length", "4"]
        measure("generate", words, command, lambda text: lm.generate([text], search)[0], texts)


if __name__ == "__main__":
    main()
