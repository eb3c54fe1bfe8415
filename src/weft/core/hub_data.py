"""Splits of datasets on the Hugging Face Hub by name: found in the cache on this machine first, downloaded by revision."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from weft.core.hub import MAX_DOWNLOAD, downloads_allowed, max_gigabytes

PREFIX = "hub:"
EXAMPLE, EXAMPLE_CONFIG = "hub:owner/dataset/split@revision", "hub:owner/dataset:config/split@revision"
_NAME = re.compile(
    r"hub:(?P<repository>\w[\w.-]*/\w[\w.-]*)(:(?P<config>\w[\w.-]*))?/(?P<split>\w[\w.-]*)(@(?P<revision>\w[\w.-]*))?", re.ASCII
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
WANTED = re.compile(r"README\.md|(\w[\w.=-]*/)*\w[\w.=-]*\.(parquet|arrow|csv|tsv|jsonl?|txt)(\.gz)?", re.ASCII)
"""Files that are downloaded: data and its description, never code."""


class HubSplit(NamedTuple):
    """A split of a dataset on the Hub: ``hub:owner/dataset/split@revision``, or ``hub:owner/dataset:config/split@revision``.

    Args:
        repository: ``owner/dataset``.
        config: Name of the subset, where the dataset has several; "" = its only one.
        split: Name of the split.
        revision: Commit, branch or tag; "" = any that is in the cache.
    """

    repository: str
    config: str
    split: str
    revision: str

    def __str__(self) -> str:
        config, revision = (mark + value if value else "" for mark, value in ((":", self.config), ("@", self.revision)))
        return f"{PREFIX}{self.repository}{config}/{self.split}{revision}"


def is_hub_name(name: object) -> bool:
    """Return whether a data file is named on the Hub."""
    return isinstance(name, str) and name.startswith(PREFIX)


def parse_name(name: str) -> HubSplit:
    """Return the parts of a name. Raises ValueError for a malformed one.

    Example:
        >>> parse_name("hub:nyu-mll/glue:sst2/train@main")
        HubSplit(repository='nyu-mll/glue', config='sst2', split='train', revision='main')
    """
    found = _NAME.fullmatch(name)
    if found is None or len(name) > 300:
        raise ValueError(
            f"{name[:100]!r} is no name of data on the Hub; write {EXAMPLE}, or hub:owner/dataset:config/split@revision"
        )
    return HubSplit(*(found[part] or "" for part in HubSplit._fields))


def find_dataset(split: HubSplit) -> Path:
    """Return the folder of a dataset in the cache of the Hub, after a download where the name has a revision.

    Its name is the commit. Files of at most ``WEFT_MAX_DOWNLOAD`` GB are downloaded, after their size is printed.
    """
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        raise ValueError(f"{split}: data on the Hub needs the extra data: pip install 'weft[data]'") from None
    repository, revision = split.repository, split.revision
    try:
        return Path(snapshot_download(repository, repo_type="dataset", revision=revision or None, local_files_only=True))
    except Exception:  # not cached; the exception differs between versions
        pass
    command = f"hf download {repository} --repo-type dataset --revision {revision or 'REVISION'}"
    missing = f"{split} is not in the cache {constants.HF_HUB_CACHE}"
    if not downloads_allowed():
        raise ValueError(f"{missing}, and this command uses no network; run: {command}")
    if not revision:
        raise ValueError(f"{missing}; to download it, name its revision: a commit, or a branch such as {split}@main")
    try:
        wanted = _wanted_files(repository, revision)
        return Path(snapshot_download(repository, repo_type="dataset", revision=revision, allow_patterns=wanted))
    except errors.HfHubHTTPError as error:  # the Hub answered
        code = getattr(error.response, "status_code", None)
        why = "there is no such dataset or revision, or it is private or gated"
        raise ValueError(f"{missing}; the Hub refused it (status {code}): {why}") from None
    except ValueError:
        raise
    except Exception:  # network errors differ between versions
        raise ValueError(
            f"{missing}, and the Hub cannot be reached. Where there is a network, run: {command}; then copy its cache here and "
            f"set HF_HOME to it. Or save the split as a file (.jsonl, .csv, .tsv) and name that instead of {split}"
        ) from None


def pin(name: str) -> str:
    """Return the name with the commit as its revision, which fixes the content."""
    split = parse_name(name)
    if _COMMIT.fullmatch(split.revision):
        return name
    commit = find_dataset(split).name
    if not _COMMIT.fullmatch(commit):
        raise ValueError(f"{name}: the cache of the Hub has no commit for it, but {commit[:50]!r}; name a commit as its revision")
    return str(split._replace(revision=commit))


def _wanted_files(repository: str, revision: str) -> list[str]:
    """The files to download; their number and size are printed. Raises ValueError where they are too large."""
    from huggingface_hub import HfApi

    found = HfApi().dataset_info(repository, revision=revision, files_metadata=True).siblings or []
    sizes = {file.rfilename: file.size for file in found if WANTED.fullmatch(file.rfilename)}
    if set(sizes) <= {"README.md"}:
        raise ValueError(
            f"{repository}@{revision} has no files of data that weft reads (.parquet, .arrow, .csv, .tsv, .json, .jsonl, .txt); "
            "save the split as a file and name that"
        )
    if unknown := [file for file, size in sizes.items() if not isinstance(size, int)]:
        raise ValueError(f"{repository}@{revision}: the Hub does not tell the size of {unknown[0]}; download the data yourself")
    total, limit = sum(size for size in sizes.values() if size is not None), max_gigabytes()
    amount = f"{repository}@{revision}: {len(sizes)} files, {total / 1e9:.2f} GB"
    if total > limit * 1e9:
        raise ValueError(f"{amount}; at most {limit:g} GB are downloaded: set {MAX_DOWNLOAD} to a larger number of GB")
    print(f"downloading {amount}", file=sys.stderr, flush=True)
    return sorted(sizes)
