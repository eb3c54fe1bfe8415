"""Data on the Hub by name: from a cache on this machine; the Hub itself is replaced, no test uses a network."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from tests.commands import weft

from weft.core.hub import no_downloads
from weft.core.hub_data import HubSplit, parse_name, pin
from weft.core.io import read_lines
from weft.data import LabeledText, Word
from weft.data.hub_rows import local_file
from weft.recipe import RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run_text

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "hub:someone/reviews/train"
TEXT = """
device: cpu
data:
  type: labeled-text
  train: "hub:someone/reviews/train@main"
  tokenizer: {type: word, vocab_size: 50}
  validation_fraction: 0
structure: {type: classifier, dim: 8}
objective: classification
learning: {type: gradient, steps: 2, batch_tokens: 60}
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the Hub with one dataset; nothing else can be reached."""
    folder = tmp_path / "hub" / "datasets--someone--reviews"
    data = folder / "snapshots" / COMMIT / "data"
    data.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    rows = [{"text": f"film {i}", "label": "good" if i % 2 else "bad"} for i in range(20)]
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    download = huggingface_hub.snapshot_download
    monkeypatch.setattr(huggingface_hub, "snapshot_download", partial(download, cache_dir=tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: pytest.fail("the Hub was asked"))
    return data


class Remote:
    """The Hub as the tests need it: nothing is in the cache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, files: dict[str, Any], error: Exception | None = None):
        self.files, self.error, self.patterns = files, error, list[str]()
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.download)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: SimpleNamespace(dataset_info=self.info))

    def info(self, repository: str, *, revision: str, files_metadata: bool) -> Any:
        if self.error:
            raise self.error
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name, size=size) for name, size in self.files.items()])

    def download(self, repository: str, *, local_files_only: bool = False, allow_patterns: Any = (), **_: Any) -> str:
        if local_files_only:
            raise RuntimeError("not cached")
        self.patterns = allow_patterns
        return "/snapshots/" + COMMIT


def test_a_name_has_a_repository_a_split_and_a_revision():
    assert parse_name("hub:a/b/train") == HubSplit("a/b", "", "train", "")
    assert parse_name("hub:a/b-c.d:sub/test@v1.0") == HubSplit("a/b-c.d", "sub", "test", "v1.0")
    assert str(parse_name("hub:a/b-c.d:sub/test@v1.0")) == "hub:a/b-c.d:sub/test@v1.0"


@pytest.mark.parametrize(
    "name", ["hub:", "hub:a/b", "hub:a//train", "hub:../x/train", "hub:a/b/../train", "hub:a/b/train@", "hub:a/b/t\n"]
)
def test_a_malformed_name_is_an_error(name, tmp_path):
    with pytest.raises(ValueError, match="is no name of data on the Hub; write hub:owner/dataset/split@revision"):
        parse_name(name)
    with pytest.raises(RecipeError, match=r"r\.yaml:2: data.train: .*is no name of data on the Hub"):
        read_run_text(f"\ndata: {{type: labeled-text, train: {json.dumps(name)}}}\n", "r.yaml", tmp_path)


def test_rows_of_the_cache_are_read_without_a_network(hub):
    lines = read_lines(local_file(NAME))
    assert len(lines) == 20 and lines[1] == {"text": "film 1", "label": "good"}
    assert local_file(NAME) == local_file(f"{NAME}@main") == local_file(f"{NAME}@{COMMIT}")
    opened = LabeledText(train=NAME, tokenizer=partial(Word, vocab_size=50), validation_fraction=0).open()
    assert opened.codec.info["label"].labels == ("bad", "good") and len(opened.splits["train"]) == 20


def test_a_run_records_the_commit_and_can_be_evaluated(hub, tmp_path):
    read_run_text(TEXT, "r.yaml", tmp_path).train(tmp_path / "run", quiet=True)
    recipe = (tmp_path / "run" / "recipe.yaml").read_text()
    assert f"hub:someone/reviews/train@{COMMIT}" in recipe and "@main" not in recipe
    again = weft("evaluate", str(tmp_path / "run"), "--split", "train")
    assert again.code == 0, again


def test_another_commit_is_another_dataset(hub):
    first, other = local_file(NAME), "f" * 40
    moved = hub.parent.rename(hub.parent.with_name(other))
    (moved.parents[1] / "refs" / "main").write_text(other)
    (moved / "data" / "train.jsonl").write_text('{"text": "new", "label": "x"}\n')
    assert local_file(NAME) != first and len(read_lines(local_file(NAME))) == 1
    assert pin(NAME) == f"{NAME}@{other}"


def test_weft_check_does_not_open_the_dataset(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("the Hub was asked"))
    assert check(read_run_text(TEXT, "r.yaml", tmp_path))


def test_an_unknown_split_is_reported(hub):
    with pytest.raises(ValueError, match=r"^hub:someone/reviews/nowhere: .*nowhere"):
        local_file("hub:someone/reviews/nowhere")


def test_a_damaged_file_is_reported_and_leaves_nothing_behind(hub, tmp_path):
    (hub / "train.jsonl").unlink()
    (hub / "train.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 9)[:-9])
    with pytest.raises(ValueError, match=r"^hub:someone/reviews/train: "):
        local_file(NAME)
    assert not list((tmp_path / "cache").rglob("*rows*"))


def test_rows_that_exceed_the_limit_are_refused(hub, monkeypatch):
    monkeypatch.setenv("WEFT_MAX_DOWNLOAD", "0.0000001")
    with pytest.raises(ValueError, match=r"its rows have more than 1e-07 GB; set WEFT_MAX_DOWNLOAD"):
        local_file(NAME)


def test_only_a_revision_is_downloaded(monkeypatch):
    Remote(monkeypatch, {})
    with pytest.raises(ValueError, match=r"to download it, name its revision: .* such as hub:someone/reviews/train@main"):
        local_file(NAME)


def test_without_downloads_the_command_is_named(monkeypatch):
    Remote(monkeypatch, {})
    with no_downloads(), pytest.raises(ValueError, match="uses no network; run: hf download someone/reviews --repo-type dataset"):
        local_file(f"{NAME}@main")


def test_without_a_network_the_message_names_which_file_to_put_where(monkeypatch):
    Remote(monkeypatch, {}, ConnectionError("[Errno -2] Name or service not known"))
    with pytest.raises(ValueError) as caught:
        local_file(f"{NAME}@main")
    message = str(caught.value)
    assert "hf download someone/reviews --repo-type dataset --revision main" in message and "set HF_HOME" in message
    assert "save the split as a file (.jsonl, .csv, .tsv)" in message and "Errno" not in message


def test_only_data_is_downloaded_and_its_size_is_printed(monkeypatch, capsys):
    files = {"data/train.parquet": 5, "README.md": 1, "reviews.py": 9, "../x.csv": 9, "model.bin": 10**15, "a.jsonl.gz": 2}
    remote = Remote(monkeypatch, files)
    assert pin(f"{NAME}@main") == f"{NAME}@{COMMIT}"
    assert remote.patterns == ["README.md", "a.jsonl.gz", "data/train.parquet"]
    assert "downloading someone/reviews@main: 3 files, 0.00 GB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": 11_000_000_000}, r"1 files, 11.00 GB; at most 10 GB are downloaded: set WEFT_MAX_DOWNLOAD"),
        ({"a.csv": None}, "the Hub does not tell the size of a.csv"),
        ({"README.md": 3, "load.py": 3}, "has no files of data that weft reads"),
    ],
)
def test_what_cannot_be_downloaded_is_reported(monkeypatch, files, message):
    remote = Remote(monkeypatch, files)
    with pytest.raises(ValueError, match=message):
        local_file(f"{NAME}@main")
    assert not remote.patterns
