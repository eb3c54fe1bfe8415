"""A model that is neither a folder nor downloadable: the message names the model, the cache and what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest

from weft.core.hub import find_model


def refusing(error: Exception) -> Any:
    def fetch(*_: Any, **__: Any) -> str:
        raise error

    return fetch


@pytest.mark.parametrize("error", [ConnectionError("[Errno -2] Name or service not known"), RuntimeError("ConnectError: ...")])
def test_without_a_network_the_message_names_the_cache_and_what_to_do(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refusing(error))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", "/cache/hub")
    with pytest.raises(ValueError) as caught:
        find_model("somebody/bert-tiny")
    message = str(caught.value)
    assert "'somebody/bert-tiny'" in message and "/cache/hub" in message
    assert message.endswith("pass the folder of the model, set HF_HOME to the folder of the cache, or connect to the network")
    assert "ConnectError" not in message and "Errno" not in message and "\n" not in message


def test_an_unknown_model_on_the_hub_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    error = huggingface_hub.errors.RepositoryNotFoundError.__new__(huggingface_hub.errors.RepositoryNotFoundError)
    error.response = SimpleNamespace(status_code=404)  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", refusing(error))
    with pytest.raises(ValueError, match=r"the Hub refused 'somebody/none@v2' \(status 404\): there is no such model"):
        find_model("somebody/none@v2")
