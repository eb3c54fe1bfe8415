"""Sources, pages, tests, benchmarks and tools use the field's terms: a phrase that has a standard term is found, and each
exception has a reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# phrase -> the term to use instead
GLOSSARY = {
    r"(?<!\bin )\bplaces?\b": "position, latent code, dimension, path",
    r"\b(looks?|looked|looking) at\b": "attend to, inspect",
    r"\ba function of each number\b": "element-wise activation",
    r"\ba map of each\b": "position-wise feed-forward",
    r"\bgone through\b": "applied repeatedly",
    r"\b(hides?|hiding)\b": "mask, masking strategy",
    r"\bhidden (tokens?|words?|patch(es)?)\b": "masked token",
    r"\b(say|says|said|saying)\b": "predict, output, specify",
    r"\b(readers?|writers?|listeners?)\b": "encoder, decoder, auxiliary classifier",
    r"\blikeness(es)?\b": "similarity",
    r"\bheed(s|ed)?\b": "condition on",
    r"\bso many\b": "N",
    r"\bdrawn\b": "sampled, plotted",
    r"\bmade[ -]up\b": "synthetic",
    r"\blikeliest\b": "most probable",
    r"\b(begin|end) marks?\b": "BOS, EOS",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\btroubles?\b": "error, problem",
    r"\bgo(es|ing)? on\b": "continue, resume",
    r"\bwhat (there is|was found|is known)\b": "the dataset, the result, available",
    r"\b(that is|are) to be\b": "a direct statement",
    r"\bnumbers of (a|the) vector\b": "features, dimensions",
    r"\bfool(s|ed|ing)?\b": "generator loss, adversarial training",
    r"\btaken as made\b": "classified as fake",
    r"\bput back\b": "restore",
    r"\bfor lack of\b": "because there is no",
    r"\bbends?\b": "change",
    r"\bis paid for\b": "free-bits threshold on the KL",
    r"\basked (of|about)\b": "requested, queried",
    r"\bright (answers?|numbers?)\b": "reference, gold label, target",
    r"\b(colour|behaviour|neighbour|favour|honour|labell|judgement|centre)\w*": "American spelling",
    r"\b(final|initial|normal|optim|penal|recogn|standard|summar|token)is(e|es|ed|er|ers|ing|ation)\b": "American spelling",
    r"\b(grey|learnt|misspelt|spoilt)\b": "American spelling",
}

# (part of a path, part of the line): the phrase is right there, and why
ALLOWED: dict[tuple[str, str], str] = {
    ("", "DatasetWriter"): "the class that writes prepared files",
    ("docs/about/benchmarks.md", "give my place for your time"): "generated text",
    ("docs/about/benchmarks.md", "definitely say my service"): "generated text",
    ("docs/about/", "hide: ["): "an option of MkDocs",
    ("docs/howto/latent-spaces.md", "place"): "a word of the example data, where people review places",
    ("docs/howto/tensorboard.md", "riter"): "SummaryWriter of PyTorch",
    ("docs/tutorials/", "writer"): "csv.writer of Python",
    ("src/weft/data/prepared.py", "writer"): "the class that writes prepared files",
    ("src/weft/data/sources/", "riter"): "the class that writes prepared files",
    ("src/weft/data/sources/parsing.py", "csv.reader"): "csv.reader of Python",
    ("src/weft/inference/prediction_file.py", "csv."): "csv.reader and csv.writer of Python",
    ("src/weft/training/tensorboard.py", "riter"): "SummaryWriter of PyTorch",
    ("tests/cli/test_predict.py", "csv."): "csv.reader and csv.writer of Python",
    ("tests/workflows/test_raw_files.py", "csv.reader"): "csv.reader of Python",
    ("tests/core/test_files.py", "SummaryWriter"): "SummaryWriter of PyTorch",
    ("tests/data/sources/test_multiple_choice.py", '"say'): "a sentence of the example data",
    ("tests/data/sources/test_parsing.py", "csv.writer"): "csv.writer of Python",
    ("tests/data/sources/test_sources.py", "csv.writer"): "csv.writer of Python",
    ("src/weft/core/text_stream.py", "BufferedReader"): "io.BufferedReader of Python",
    ("tests/data/sources/test_sources.py", 'say "no"'): "a sentence of the example data",
    ("tests/data/test_prepared.py", "writer"): "an instance of DatasetWriter",
    ("tests/core/test_gguf.py", "riter"): "the writer of the package gguf",
    ("tests/pretrained/test_dequantize.py", "riter"): "the writer of the package gguf",
    ("tests/pretrained/test_gguf.py", "riter"): "the writer of the package gguf",
    ("tests/data/tokenizers/test_sentencepiece.py", "model_writer="): "an option of the package sentencepiece",
    ("tests/systems/latent_text/evaluate/", "place"): "a word of the example data, where people review places",
    ("tests/workflows/test_autoencoding_runs.py", '"place"'): "a word of the example data",
    ("benchmarks/conditional.py", '"drawn":'): "a key of recorded results",
    ("benchmarks/mutations.py", "end_mark"): "an attribute of PyYAML nodes",
    ("benchmarks/similarity.py", "csv.reader"): "csv.reader of Python",
}


SOURCES = ("src/**/*.py", "src/**/*.yaml", "docs/**/*.md", "README.md", "CONTRIBUTING.md")
TESTS = ("tests/**/*.py", "benchmarks/*.py", "benchmarks/*.yaml", "tools/**/*.py")


def files() -> Iterator[Path]:
    """All files but this one, whose phrases are the glossary; the changelog names old terms in its table of renames."""
    for pattern in (*SOURCES, *TESTS):
        yield from (path for path in sorted(ROOT.glob(pattern)) if path != Path(__file__))


def words(line: str) -> str:
    """The line with names in snake case and camel case split into words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", line.replace("_", " "))


def findings(name: str, text: str) -> Iterator[tuple[tuple[str, str] | None, str]]:
    """Yield for each phrase of the glossary in ``text`` the exception that covers it, or None, and a message."""
    for number, line in enumerate(text.splitlines(), 1):
        for phrase, term in GLOSSARY.items():
            if match := re.search(phrase, words(line), re.IGNORECASE):
                exception = next((key for key in ALLOWED if key[0] in name and key[1] in line), None)
                yield exception, f"{name}:{number}: {match[0]!r}; use: {term}"


def test_sources_and_pages_use_the_terms_of_the_field() -> None:
    found = [item for path in files() for item in findings(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))]
    bad = [message for exception, message in found if exception is None]
    assert not bad, "\n".join(bad)
    unused = set(ALLOWED) - {exception for exception, _ in found}
    assert not unused, f"exceptions that cover nothing: {sorted(unused)}"


@pytest.mark.parametrize(
    "line",
    [
        "which query looks at which key",
        "a Reader of texts",
        "the place of a token",
        "labelled rows",
        "weft goes on from a checkpoint",
        "def test_a_run_that_goes_on(tmp_path):",
        "class LabelledRows:",
    ],
)
def test_a_phrase_of_the_glossary_is_found(line: str) -> None:
    assert [exception for exception, _ in findings("docs/page.md", line)] == [None]


@pytest.mark.parametrize("line", ["replaced tokens", "hidden states", "displaces", "labeled rows", "a placeholder", "an essay"])
def test_words_that_only_contain_a_phrase_are_not(line: str) -> None:
    assert not list(findings("docs/page.md", line))
