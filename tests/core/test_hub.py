"""Models on the Hub: what is downloaded, when, and how errors are reported. The Hub is replaced; no test uses a network."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from tests.commands import weft

from weft.core.hub import find_model, no_downloads

FILES = {
    "config.json": 500,
    "model.safetensors": 2_000_000_000,
    "1_Pooling/config.json": 100,
    "model-00001-of-00002.safetensors": 10,
    "tokenizer.json": 1000,
    "pytorch_model.bin": 10**15,
    "modeling_custom.py": 10,
    "onnx/model.safetensors": 10**15,
    "../config.json": 10,
    "notes.txt": 10,
}


class Hub:
    """The Hub as the tests need it: it counts the questions that reach it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception | None = None, files: Any = FILES):
        self.asked, self.patterns, self.folder, self.error, self.files = 0, [], tmp_path, error, files
        monkeypatch.setattr(huggingface_hub, "snapshot_download", self.download)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: SimpleNamespace(model_info=self.info))
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", "/cache/hub")

    def info(self, repository: str, *, revision: str, files_metadata: bool) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name, size=size) for name, size in self.files.items()])

    def download(self, repository: str, *, local_files_only: bool = False, allow_patterns: Any = (), **_: Any) -> str:
        if local_files_only:
            raise RuntimeError("not cached")
        self.asked, self.patterns = self.asked + 1, allow_patterns
        return str(self.folder)


@pytest.mark.parametrize("error", [ConnectionError("[Errno -2] Name or service not known"), RuntimeError("ConnectError: ...")])
def test_without_a_network_the_message_names_the_cache_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    Hub(monkeypatch, tmp_path, error)
    with pytest.raises(ValueError) as caught:
        find_model("somebody/bert-tiny@main")
    message = str(caught.value)
    assert "'somebody/bert-tiny@main'" in message and "/cache/hub" in message
    assert message.endswith("pass the folder of the model, set HF_HOME to the folder of the cache, or connect to the network")
    assert "ConnectError" not in message and "Errno" not in message and "\n" not in message


def test_an_unknown_model_on_the_hub_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = huggingface_hub.errors.RepositoryNotFoundError.__new__(huggingface_hub.errors.RepositoryNotFoundError)
    error.response = SimpleNamespace(status_code=404)  # pyright: ignore[reportAttributeAccessIssue]
    Hub(monkeypatch, tmp_path, error)
    with pytest.raises(ValueError, match=r"the Hub refused 'somebody/none@v2' \(status 404\): there is no such model"):
        find_model("somebody/none@v2")


def test_only_a_revision_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = Hub(monkeypatch, tmp_path)
    with pytest.raises(ValueError, match=r"to download it, name its revision: a commit, .* such as somebody/bert@main"):
        find_model("somebody/bert")
    assert not hub.asked


def test_only_files_that_are_read_are_downloaded_and_their_size_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = Hub(monkeypatch, tmp_path)
    assert find_model("somebody/bert@v1") == tmp_path
    assert hub.patterns == sorted(list(FILES)[:5])
    assert capsys.readouterr().err == "downloading somebody/bert@v1: 5 files, 2.00 GB\n"


def test_the_size_of_a_download_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = Hub(monkeypatch, tmp_path, files={**FILES, "model.safetensors": 11 * 10**9})
    with pytest.raises(ValueError, match=r"5 files, 11\.00 GB; at most 10 GB are downloaded: set WEFT_MAX_DOWNLOAD"):
        find_model("somebody/bert@v1")
    monkeypatch.setenv("WEFT_MAX_DOWNLOAD", "1_000")
    with pytest.raises(ValueError, match="WEFT_MAX_DOWNLOAD is '1_000'; it must be a number of GB"):
        find_model("somebody/bert@v1")
    assert hub.patterns == []
    monkeypatch.setenv("WEFT_MAX_DOWNLOAD", "12")
    assert find_model("somebody/bert@v1") == tmp_path
    Hub(monkeypatch, tmp_path, files={"model.safetensors": None})
    with pytest.raises(ValueError, match=r"does not tell the size of model\.safetensors"):
        find_model("somebody/bert@v1")


def test_check_never_asks_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = Hub(monkeypatch, tmp_path)
    with no_downloads(), pytest.raises(ValueError, match="is not downloaded"):
        find_model("somebody/bert@v1")
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        "data: {type: labeled-text, train: a.tsv, tokenizer: {type: pretrained, from: somebody/bert@v1}}\n"
        "structure: {type: bert, weights: somebody/bert@v1}\nobjective: classification\nlearning: {type: gradient, steps: 1}\n"
    )
    (tmp_path / "a.tsv").write_text("text\tlabel\nx\ta\ny\tb\n")
    answer = weft("check", recipe)
    assert answer.code == 2 and not hub.asked
    assert "r.yaml:1: data.tokenizer.from: " in answer.err and "r.yaml:2: structure.weights: " in answer.err
    assert "not downloaded, and this command uses no network; run: hf download somebody/bert --revision v1" in answer.err
