"""Class-conditional generation and style transfer: all systems side by side.

    python -m benchmarks.conditional                      run missing arms on Yelp, one after another, then update the tables
    python -m benchmarks.conditional --table              print the tables, without changing a page; names missing arms
    python -m benchmarks.conditional --trials             the hyperparameter settings tried for each system, equally many
    python -m benchmarks.conditional --corpus flickrstyle
    python -m benchmarks.conditional --part 1/2           every second arm, for one core; another call takes --part 2/2

An arm is a shipped recipe with a seed, trained on the parts of benchmarks/sentences.py and evaluated on 1,000 unseen texts (800
of FlickrStyle): accuracy by an oracle trained on other texts, BLEU against real texts or the source, their geometric mean G,
Self-BLEU, and perplexity under a Kneser-Ney model of yet other texts. Trials use seed 1 and the validation texts, ranked by
the mean of both G (of generation alone, if a system does not support style transfer). Results are stored in benchmarks/results
under the hash of the recipe. The data is expected under WEFT_DATA.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.arms import FOLDER, HALF, Arm, done, run
from benchmarks.document import IMAGES, PAGE, SOFT, scatter, show
from benchmarks.queue import parser_of, wanted
from benchmarks.results import record, recorded, spread
from benchmarks.sentences import STYLE, YELP, Corpus, apart
from weft.core.io import read_json
from weft.evaluate import KneserNey, ReferencePool
from weft.recipe import RecipeError
from weft.systems.latent_text.evaluate import (
    GenerationMetrics,
    Oracle,
    constant_baseline,
    copy_baseline,
    evaluate_generation,
    evaluate_transfer,
    retrieval_baseline,
    sample_baseline,
)
from weft.systems.latent_text.run_evaluation import evaluate_run

SEEDS = (1, 2, 3)
CORPORA = {corpus.name: corpus for corpus in (YELP, STYLE)}


@dataclass(frozen=True)
class System:
    """A system: its recipe, the settings tried for it (the first is the recipe), and overrides for all corpora, or by corpus."""

    name: str
    recipe: str
    trials: tuple[tuple[str, ...], ...] = ((),)
    corpora: tuple[str, ...] = ("yelp",)
    changes: tuple[str, ...] = ()
    by_corpus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def arm(self, corpus: Corpus, seed: int, trial: int = 0) -> Arm:
        own = self.by_corpus.get(corpus.name, ())
        changes = (f"seed={seed}", *corpus.data(), *CHANGED[corpus.name], *self.changes, *own, *self.trials[trial])
        return Arm(f"{corpus.name}-{self.recipe}-{seed}", self.recipe, changes)


BOTH = ("yelp", "flickrstyle")
CHANGED = {
    "yelp": (
        "data.min_words=4",
        "data.max_words=15",
    ),
    "flickrstyle": (
        "data.min_words=4",
        "data.max_words=20",
        "data.max_length=20",
        "structure.pooler.positions=21",
        "structure.injections.0.positions=21",
    ),
}
"""Overrides of every recipe by corpus."""
MAX_LENGTH = {"flickrstyle": ("objective.mutual_information.max_length=21",)}
NOISE = ((), ("objective.reconstruction.noise.start=0.5",))
WEIGHT = ((), ("objective.mutual_information.weight.weight=3",))
WEIGHT_LATER = ((), ("stages.0.objective.mutual_information.weight.weight=3",))
BETA = ((), ("objective.vae.beta.weight=0.1",))
FREE = ((), ("objective.free_bits.nats=0.5",))
RATE = ((), ("stages.0.learning.optimizer.lr=1e-4",))
SYSTEMS = (
    System("CARA_AB", "cara-minilm", WEIGHT, changes=HALF),
    System("CARA_AB, encoder pre-trained here", "cara-pretrained", WEIGHT_LATER),
    System("CARA_A", "cara-annealed", NOISE, BOTH, by_corpus=MAX_LENGTH),
    System("CARA", "cara", NOISE, BOTH, by_corpus=MAX_LENGTH),
    System("ARAE-", "arae-minus", NOISE, BOTH),
    System("ARAE", "arae", NOISE),
    System("Ctrl-Gen", "ctrl-gen", BETA),
    System("OPTIMUS", "optimus", FREE),
    System("NN-Outlines", "nn-outlines", RATE, changes=HALF),
)
TUNED = tuple(
    f"stages.0.learning.phases.{phase}.train=[encoder.*, top_encoder.*, pooler.*, to_latent.*, {other}.*]"
    for phase, other in ((0, "decoder"), (2, "sampler"))
)
ABLATIONS = (
    System("CARA_A that saw as few sentences as CARA_AB", "cara-annealed", changes=("learning.batch_tokens=750",)),
    System("CARA_A with an encoder of three layers", "cara-annealed", changes=("structure.encoder.encoder.layers=3",)),
    System("CARA_AB, encoder pre-trained here and never frozen", "cara-pretrained", changes=TUNED),
)
"""Ablations: variants that explain the results of a system."""


def systems_of(corpus: Corpus, ablations: bool = False) -> list[System]:
    return [system for system in (*SYSTEMS, *(ABLATIONS if ablations else ())) if corpus.name in system.corpora]


@cache
def oracle_of(corpus: Corpus) -> Oracle:
    file = FOLDER / f"sentences-{corpus.name}" / "oracle.json"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        Oracle.train(*apart(corpus.cut()["oracle"])).save(file)
    return Oracle.load(file)


@cache
def language_model_of(corpus: Corpus) -> KneserNey | None:
    """Language model for the perplexity; None if fewer than 10,000 texts are left to train it."""
    rest = corpus.cut()["rest"]
    return KneserNey([text.split() for text, _ in rest], order=4, min_count=2) if len(rest) >= 10_000 else None


def name_of(arm: Arm, split: str) -> str:
    return f"{arm.folder().name}-{split}"


def evaluate(arm: Arm, corpus: Corpus, split: str) -> None:
    """Evaluate a finished run and record its metrics."""
    folder = arm.folder()
    found = evaluate_run(folder, oracle_of(corpus), split=split, language_model=language_model_of(corpus))
    usage, metrics = read_json(folder / "usage.json"), read_json(folder / "metrics.json")
    record(
        name_of(arm, split),
        {
            "figures": found.metric_values(),
            "warnings": found.warnings(),
            "validation": {name: value for name, value in metrics.items() if isinstance(value, float)},
            "seconds": usage["seconds"],
            "cpu_seconds": usage["cpu_seconds"],
            "peak_memory": usage["peak_memory"],
            "drawn": found.generated[:8],
            "rewritten": found.transferred[:8],
        },
    )


# ------------------------------------------------------------------------------------------------------------------- tables

GENERATION = ("accuracy", "bleu_4", "g_score", "self_bleu", "distinct_2", "word_perplexity")
TRANSFER = ("accuracy", "bleu_4", "g_score", "self_bleu", "word_perplexity")
TITLES = {"accuracy": "accuracy, %", "bleu_4": "BLEU", "g_score": "G", "self_bleu": "Self-BLEU", "distinct_2": "distinct-2, %"}
FRACTIONS = ("accuracy", "distinct_2")


def cell(found: Sequence[float], fraction: bool = False) -> str:
    return spread([100 * value if fraction else value for value in found])


def results(system: System, corpus: Corpus, split: str = "test", trial: int | None = None) -> list[dict[str, Any]]:
    """Recorded results of a system: of all seeds, or of one trial."""
    arms = [system.arm(corpus, seed) for seed in SEEDS] if trial is None else [system.arm(corpus, SEEDS[0], trial)]
    return [found for arm in arms if (found := recorded(name_of(arm, split))) is not None]


def lines_of(setting: str, columns: Sequence[str], corpus: Corpus) -> list[str]:
    heads = ["system", "seeds", *(TITLES.get(name, "perplexity") for name in columns)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for system in systems_of(corpus, ablations=True):
        found = results(system, corpus)
        if found and f"{setting}_accuracy" not in found[0]["figures"]:
            lines.append(f"| {system.name} | {len(found)} | no style transfer |" + " |" * (len(columns) - 1))
            continue
        cells = [cell([one["figures"][f"{setting}_{name}"] for one in found if f"{setting}_{name}" in one["figures"]],
                      name in FRACTIONS) for name in columns]  # fmt: skip
        lines.append(f"| {' | '.join([system.name, f'{len(found)} of {len(SEEDS)}' if found else 'missing', *cells])} |")
    for name, metrics in baselines(corpus)[setting].items():
        row = metrics.metric_values()
        cells = [cell([row[column]], column in FRACTIONS) if column in row else "" for column in columns]
        lines.append(f"| {' | '.join([name, '', *cells])} |")
    return lines


def costs(corpus: Corpus) -> list[str]:
    lines = ["| system | CPU minutes | memory, MB | warnings |", "|---|---|---|---|"]
    for system in systems_of(corpus, ablations=True):
        found = results(system, corpus)
        minutes, memory = (cell([one[key] / by for one in found]) for key, by in (("cpu_seconds", 60), ("peak_memory", 1e6)))
        warnings = sorted({warning.split(":")[0] + ": " + warning.split(": ")[1] for one in found for warning in one["warnings"]})
        lines.append(f"| {system.name} | {minutes or 'missing'} | {memory} | {'; '.join(warnings)} |")
    return lines


def tried(corpus: Corpus) -> list[str]:
    lines = [
        "| system | setting | transfer: accuracy, % | BLEU | G | generation: accuracy, % | BLEU | G | Self-BLEU |",
        "|---" * 9 + "|",
    ]
    for system in systems_of(corpus):
        for trial, changes in enumerate(system.trials):
            setting = ", ".join(f"`{change}`" for change in changes) or "the recipe"
            found = results(system, corpus, "valid", trial)
            columns = [f"transfer_{name}" for name in TRANSFER[:3]] + [f"generation_{name}" for name in GENERATION[:4]]
            cells = [cell([one["figures"][name] for one in found if name in one["figures"]], name.endswith("accuracy"))
                     for name in columns]  # fmt: skip
            lines.append(f"| {' | '.join([system.name, setting, *(cells if found else ['missing', *cells[1:]])])} |")
    return lines


def examples(corpus: Corpus, number: int = 3) -> list[str]:
    """The first test sentences, rewritten by each system with its first recorded seed."""
    runs = {system.name: own[0] for system in systems_of(corpus) if (own := results(system, corpus))}
    found = {name: own["rewritten"] for name, own in runs.items() if own["rewritten"]}
    lines = ["| | |", "|---|---|"]
    for rows in islice(zip(*found.values(), strict=True), number):
        source, target, _ = rows[0]
        lines += [
            f"| *to {target}* | *{source}* |",
            *(f"| {name} | {row[-1]} |" for name, row in zip(found, rows, strict=True)),
        ]
    return lines


def draw(file: Path, corpus: Corpus) -> None:
    """Plot accuracy against BLEU, one point per seed, with contour lines of equal G."""
    panels = dict[str, dict[str, list[tuple[float, float]]]]()
    for setting, title in (("generation", "class-conditional generation"), ("transfer", "style transfer")):
        panels[title] = {
            system.name: points
            for system in systems_of(corpus)
            if (points := [(own[f"{setting}_bleu_4"], 100 * own[f"{setting}_accuracy"])
                           for own in (one["figures"] for one in results(system, corpus)) if f"{setting}_bleu_4" in own])
        }  # fmt: skip
        for name, metrics in baselines(corpus)[setting].items():
            row = metrics.metric_values()
            panels[title][name] = [(row["bleu_4"], 100 * row["accuracy"])]

    def contours(plot: Any) -> None:
        left, right = plot.get_xlim()
        for g in range(20, 100, 20):
            bleu = [max(g * g / 105, 0.5) + i / 10 for i in range(1000)]
            plot.plot(bleu, [g * g / x for x in bleu], color=SOFT, linewidth=0.5, alpha=0.6, zorder=1)
            if left < g * g / 103 < right:
                plot.text(g * g / 103, 103, f"G {g}", fontsize=6, color=SOFT, ha="center", va="bottom")
        plot.set_xlim(max(left, -1), right)
        plot.set_ylim(-3, 103)

    scatter(file, "Oracle accuracy against BLEU", panels, ("BLEU", "accuracy, %"), contours)


def draw_why(file: Path, corpus: Corpus) -> None:
    """Plot G of style transfer against the reconstruction loss, for all variants of CARA: one point per seed."""
    points = {
        system.name: [(one["validation"]["reconstruction"], one["figures"]["transfer_g_score"]) for one in found]
        for system in systems_of(corpus, ablations=True)
        if system.recipe.startswith("cara") and (found := results(system, corpus))
    }
    axes = ("reconstruction loss, nats per token (validation)", "G of style transfer")
    scatter(file, "Reconstruction limits style transfer", {"": points}, axes)


def best_constant(texts: Sequence[str]) -> str:
    """The one of the first texts with the best BLEU against others: the best output of a fully collapsed generator."""
    pool = ReferencePool(texts[300:2300])
    return max(texts[:300], key=lambda text: pool.bleu([text]).score)


@cache
def baselines(corpus: Corpus) -> Mapping[str, Mapping[str, GenerationMetrics]]:
    """Baselines without a network, in both settings."""
    parts, oracle, model = corpus.cut(), oracle_of(corpus), language_model_of(corpus)
    (sources, labels), train, known = apart(parts["test"]), apart(parts["train"]), apart(parts["valid"])[0]
    wanted = [corpus.classes[i % len(corpus.classes)] for i in range(len(sources))]
    others = [next(name for name in corpus.classes if name != label) for label in labels]
    generated = {
        "real sentences": sample_baseline(wanted, *train),
        "one sentence per class": constant_baseline(wanted, *train, choose=best_constant),
    }
    transferred = {
        "copy": copy_baseline(sources, others),
        "one sentence per class": constant_baseline(others, *train),
        "nearest sentence of the class": retrieval_baseline(sources, others, *train),
    }
    assert not set(known) & set(sources)
    return {
        "generation": {
            name: evaluate_generation(texts, wanted, sources, oracle, language_model=model) for name, texts in generated.items()
        },
        "transfer": {
            name: evaluate_transfer(sources, texts, others, oracle, language_model=model) for name, texts in transferred.items()
        },
    }


# -------------------------------------------------------------------------------------------------------------------- queue


def arms(corpus: Corpus, trials: bool) -> Iterator[tuple[Arm, str]]:
    """Arms and the splits they are evaluated on; the first seed, or setting, of all systems comes first."""
    own = systems_of(corpus)
    if trials:
        most = max(len(system.trials) for system in own)
        yield from ((system.arm(corpus, SEEDS[0], trial), "valid") for trial in range(most) for system in own)
    else:
        yield from ((system.arm(corpus, seed), "test") for seed in SEEDS for system in systems_of(corpus, ablations=True))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", help="only these systems, by recipe name")
    parser.add_argument("--corpus", choices=CORPORA, default="yelp")
    parser.add_argument("--trials", action="store_true", help="hyperparameter settings with one seed, on the validation texts")
    chosen, began, failed = parser.parse_args(), time.monotonic(), list[str]()
    corpus = CORPORA[chosen.corpus]
    try:
        queue = [(arm, split) for arm, split in arms(corpus, chosen.trials) if not chosen.names or arm.recipe in chosen.names]
        for arm, split in wanted(queue, chosen, began):
            if recorded(name_of(arm, split)) is not None:
                continue
            if not done(arm.folder()) and not run(arm):
                failed.append(arm.name)
                continue
            evaluate(arm, corpus, split)
        page = None if chosen.table else PAGE
        if chosen.trials:
            show(f"{corpus.name}-trials", tried(corpus), page)
        else:
            accuracy = oracle_of(corpus).accuracy(*apart(corpus.cut()["test"]))
            print(f"Accuracy of the oracle on real texts: {100 * accuracy:.1f} %.")
            show(f"{corpus.name}-generation", lines_of("generation", GENERATION, corpus), page)
            show(f"{corpus.name}-transfer", lines_of("transfer", TRANSFER, corpus), page)
            show(f"{corpus.name}-costs", costs(corpus), page)
            show(f"{corpus.name}-examples", examples(corpus), page)
            if page is not None:
                draw(IMAGES / f"class-texts-{corpus.name}.png", corpus)
                if corpus is YELP:
                    draw_why(IMAGES / "class-texts-why.png", corpus)
    except (OSError, RecipeError) as missing:
        raise SystemExit(str(missing)) from None
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
