"""Posterior collapse of a text VAE: KL annealing, free bits, and how z conditions the decoder.

    python -m benchmarks.collapse            run missing arms, one after another, then update the table and the plot
    python -m benchmarks.collapse --table    print the table only; names missing arms
    python -m benchmarks.collapse --part 1/2       every second arm, for one core; another call takes --part 2/2

The first stage of the recipe optimus, on Yelp sentences of 4 to 12 words (benchmarks/sentences.py), with three seeds. Metrics are
computed on the test sentences of that length, with 100 samples of z per sentence, and stored in benchmarks/results under the hash
of the recipe.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.arms import Arm, done, run
from benchmarks.document import IMAGES, PAGE, SOFT, scatter, show
from benchmarks.queue import parser_of, wanted
from benchmarks.results import record, recorded, spread
from benchmarks.sentences import YELP
from weft.core.io import read_json
from weft.inference.load import load
from weft.recipe import RecipeError

SEEDS = (1, 2, 3)
_AT_ONCE = ("objective.beta={type: constant, weight: 1}", "objective.free_bits={type: clamp, nats: 0}")
_FREE = "objective.free_bits={type: clamp, nats: %s}"
ARMS: dict[str, tuple[str, ...]] = {
    "constant beta 1": _AT_ONCE,
    "annealed beta": (_FREE % 0,),
    "annealed, free bits 0.1 nats": (_FREE % 0.1,),
    "annealed, free bits 0.5 nats": (_FREE % 0.5,),
    "annealed, 0.5 nats, memory only": (_FREE % 0.5, "structure.injections=[latent-memory]"),
    "annealed, 0.5 nats, embedding only": (_FREE % 0.5, "structure.injections=[latent-embedding]"),
    "annealed, 0.5 nats, no injection": (_FREE % 0.5, "structure.injections=null"),
    "annealed, 0.5 nats, per position": (
        _FREE % 0.5,
        "data.max_length=12",
        "structure.pooler={type: position-concat, positions: 13}",
        "structure.injections=[{type: latent-per-position, positions: 13}]",
    ),
}
METRICS = {
    "active_units": "active units of 32",
    "kl": "KL",
    "mutual_information": "mutual information",
    "reconstruction": "reconstruction",
    "negative_elbo": "-ELBO",
    "iw_word_perplexity": "word perplexity",
    "bleu": "reconstruction BLEU",
}


def arm(name: str, seed: int) -> Arm:
    metrics = (
        "evaluate={every: 0, max_examples: 1000, metrics: [{type: latent-space, samples: 100}, bleu], "
        "search: {type: greedy, max_length: 16}}"
    )
    changes = (f"seed={seed}", *YELP.data(), "stages=null", metrics, *ARMS[name])
    return Arm(f"collapse-{list(ARMS).index(name)}-{seed}", "optimus", changes)


def evaluate(one: Arm) -> None:
    """Evaluate a finished run on the test set and record its metrics."""
    folder = one.folder()
    usage = read_json(folder / "usage.json")
    metric_values = {
        key: value for key, value in load(folder).evaluate("test").metric_values.items() if isinstance(value, int | float)
    }
    record(folder.name, {"figures": metric_values, **{key: usage[key] for key in ("seconds", "cpu_seconds", "peak_memory")}})


def results(name: str) -> list[dict[str, Any]]:
    return [found for seed in SEEDS if (found := recorded(arm(name, seed).folder().name)) is not None]


def table() -> list[str]:
    heads = ["", "seeds", *METRICS.values(), "CPU minutes", "memory, MB"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in ARMS:
        found = results(name)
        cells = [spread([one["figures"][key] for one in found if key in one["figures"]]) for key in METRICS]
        cells += [spread([one["cpu_seconds"] / 60 for one in found]), spread([one["peak_memory"] / 1e6 for one in found], 0)]
        lines.append(f"| {' | '.join([name, f'{len(found)} of {len(SEEDS)}' if found else 'missing', *cells])} |")
    return lines


def draw(file: Path) -> None:
    """Plot mutual information against word perplexity, one point per seed."""
    found = {name: [one["figures"] for one in results(name)] for name in ARMS}
    points = {name: [(one["mutual_information"], one["iw_word_perplexity"]) for one in own] for name, own in found.items() if own}
    bound = next(one["mutual_information_bound"] for own in found.values() for one in own)  # the same for all arms

    def limit(plot: Any) -> None:
        plot.axvline(bound, color=SOFT, linestyle="--", linewidth=1, zorder=1)
        plot.text(bound, 1.01, "log N", transform=plot.get_xaxis_transform(), ha="center", va="bottom", fontsize=8, color=SOFT)

    axes = ("mutual information of z and text, nats (estimate)", "word perplexity")
    scatter(file, "Mutual information against perplexity", {"": points}, axes, limit)


def main() -> None:
    chosen, began, failed = parser_of(__doc__).parse_args(), time.monotonic(), list[str]()
    try:
        for one in wanted([arm(name, seed) for seed in SEEDS for name in ARMS], chosen, began):
            if recorded(one.folder().name) is not None:
                continue
            if done(one.folder()) or run(one):
                evaluate(one)
            else:
                failed.append(one.name)
        show("collapse", table(), None if chosen.table else PAGE)
        if any(map(results, ARMS)) and not chosen.table:
            draw(IMAGES / "collapse.png")
    except (OSError, RecipeError) as missing:
        raise SystemExit(str(missing)) from None
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
