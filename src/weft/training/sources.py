"""The data of a stage: one source, or several by name; which objective is trained and evaluated on each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.core.contracts import Codec, Corpus, Data, ProgressCallback, Tokenizer
from weft.core.fields import Info
from weft.core.options import OptionError
from weft.core.registry import option_values
from weft.data import fields_file, load_codec, save_codec
from weft.data.several import merge, open_together, shared_tokenizers
from weft.data.sources.mixture import check_names
from weft.evaluate.parts import part_name
from weft.recipe import located

if TYPE_CHECKING:
    from weft.learning.phase import Phase
    from weft.training.build import StagePlan


def factories(part: Any) -> dict[str, Any]:
    """Return the factories of data or objectives by name; a single one has the name ""."""
    return dict(part) if isinstance(part, Mapping) else {"": part}


def last_source(plan: StagePlan) -> Any:
    """Return the factory of the last source, where a disagreement between sources is reported."""
    return list(factories(plan.data).values())[-1]


def build_sources(plan: StagePlan) -> dict[str, Data]:
    """Build the sources of a stage by name. Raises ValueError for a name that cannot be part of a file name."""
    found = factories(plan.data)
    check_names(name for name in found if name or len(found) > 1)
    return {name: build() for name, build in found.items()}


def declare(plan: StagePlan) -> dict[str, Info]:
    """Return the declared fields of each source. Raises ValueError where sources of one id space have different tokenizers."""
    sources = build_sources(plan)
    shared_tokenizers(sources)
    return {name: source.declare() for name, source in sources.items()}


def tokenizers_of(plan: StagePlan) -> dict[str, Tokenizer]:
    """Return the untrained tokenizers of all sources by id space."""
    return shared_tokenizers(build_sources(plan))


def source_of(phase: Phase, names: Mapping[str, Any]) -> str:
    """Return the name of the source that a phase trains on."""
    if phase.data is None and len(names) == 1:
        return next(iter(names))
    if phase.data is None:
        raise OptionError(
            "data", f"the recipe has several sources ({', '.join(names)}); set the data of each phase in learning.phases"
        )
    if phase.data not in names:
        has = f"has: {', '.join(names)}" if any(names) else "has a single, unnamed one; leave out data in the phase, or set split"
        raise OptionError("data", f"a phase has the data {phase.data!r}, but the recipe {has}")
    return phase.data


def pairs(plan: StagePlan) -> list[tuple[str, str]]:
    """Return each source with an objective that is trained on it, in the order of the phases; then those of no phase.

    A source of no phase is evaluated with the objective of its name, else with the first one. Raises RecipeError at a phase that
    names no source; one that names no objective, which the training loop reports, is left out.
    """
    sources, objectives = factories(plan.data), factories(plan.objective)
    first = next(iter(objectives))
    if len(sources) == 1:
        return [(next(iter(sources)), name) for name in objectives]
    found: dict[tuple[str, str], None] = {}
    for number, phase in enumerate(getattr(plan.learning(), "phases", [])):
        try:
            source = source_of(phase, sources)
        except OptionError as error:
            options = option_values(plan.learning).get("phases") or []
            raise (located(options[number], error) if options else located(plan.learning, error, "phases")) from None
        objective = first if phase.objective is None and len(objectives) == 1 else phase.objective
        if objective in objectives:
            found[(source, objective)] = None
    named = {source for source, _ in found} | {""}
    found |= {(name, name if name in objectives else first): None for name in sources if name not in named}
    return list(found)


def objective_names(plan: StagePlan) -> dict[str, str]:
    """Return for each source the objective that it is evaluated with: that of the first phase that trains on it."""
    found: dict[str, str] = {}
    for source, objective in pairs(plan):
        found.setdefault(source, objective)
    return {name: found[name] for name in factories(plan.data)}


class SourcePart(NamedTuple):
    """What is evaluated by itself: a source of a stage, or a source of its mixture.

    Args:
        source: Name of the source in the recipe.
        member: Name within the mixture; "" = the source is none.
        objective: Name of the objective.
    """

    source: str
    member: str
    objective: str


def parts(plan: StagePlan) -> dict[str, SourcePart]:
    """Return the parts of a stage by name: ``source``, ``source.member``, or ``member`` where the source has no name."""
    sources, names = build_sources(plan), objective_names(plan)
    found = [SourcePart(name, member, names[name]) for name, source in sources.items() for member in source.parts() or ("",)]
    return {part_name(part.source, part.member): part for part in found}


def main_source(plan: StagePlan) -> str:
    """Return the source of the first objective, whose requests the trained model answers."""
    first, names = next(iter(factories(plan.objective))), factories(plan.data)
    return next((source for source, objective in pairs(plan) if objective == first), next(iter(names)))


def objective_info(plan: StagePlan, name: str, infos: Mapping[str, Info]) -> Info:
    """Return the fields that an objective is built on: those of the sources that it is trained on."""
    used = {source: infos[source] for source, objective in pairs(plan) if objective == name}
    return merge(used, "the sources of one objective") if used else merge(infos)


def open_corpora(
    plan: StagePlan,
    codecs: Mapping[str, Codec] | None,
    tokenizers: Mapping[str, Tokenizer],
    progress: ProgressCallback | None = None,
) -> dict[str, Corpus]:
    """Open the sources of a stage. See ``open_together``."""

    def opens(source: Data, codec: Codec | None, known: Mapping[str, Tokenizer]) -> Corpus:
        return source.open(codec, tokenizers=known, progress=progress)

    return open_together(build_sources(plan), codecs, tokenizers=tokenizers, opens=opens, progress=progress)


def join_ledgers(corpora: Mapping[str, Corpus]) -> dict[str, Any]:
    """Return the counts of all sources, by ``source.split``."""
    return {part_name(name, split): counts for name, corpus in corpora.items() for split, counts in corpus.ledger.items()}


def save_codecs(codecs: Mapping[str, Codec], folder: Path) -> None:
    """Write the fields of each source and the tokenizers, which they share."""
    for name, codec in codecs.items():
        save_codec(codec, folder, name)


def load_codecs(plan: StagePlan, folder: Path) -> dict[str, Codec]:
    """Load the codecs of a run folder."""
    return {name: load_codec(source, folder, name) for name, source in build_sources(plan).items()}


def has_codecs(plan: StagePlan, folder: Path) -> bool:
    """Return whether a run folder has the fields of all sources."""
    return all((folder / fields_file(name)).exists() for name in factories(plan.data))
