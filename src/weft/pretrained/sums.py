"""Hashes of a model that weft has published: SHA256SUMS, in the format of ``sha256sum``."""

from __future__ import annotations

from pathlib import Path

from weft.core.io import list_files, sha256, write_text

SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Write the SHA-256 of every file of a folder; check it with ``sha256sum -c SHA256SUMS``."""
    names = [str(Path(file).relative_to(folder)) for file in list_files(folder)]
    write_text(folder / SUMS, "".join(f"{sha256(folder / name)}  {name}\n" for name in names if name != SUMS))


def check_sums(folder: Path) -> None:
    """Raise ValueError where a file is missing or has changed since the model was written (known only with SHA256SUMS)."""
    file = folder / SUMS
    if not file.is_file():
        return
    way_out = f"restore it from a copy, or if the change is intended, remove {file}"
    for number, line in enumerate(file.read_bytes().decode(errors="replace").splitlines(), 1):
        wanted, _, name = line.partition("  ")
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"{file}:{number}: not a line of sha256sum: {line[:80]!r}; {way_out}")
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name} is missing; {way_out}")
        if (found := sha256(folder / name)) != wanted:
            raise ValueError(
                f"{folder / name} is damaged or was changed: its SHA-256 is {found[:12]}..., not {wanted[:12]}...; {way_out}"
            )
