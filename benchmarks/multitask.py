"""Multi-task against single-task training, and cross-lingual transfer: a queue of runs that can be interrupted and resumed.

    python -m benchmarks.multitask                   run missing arms, one after another, and write the tables into the docs
    python -m benchmarks.multitask --table           print the tables only; missing runs are counted
    python -m benchmarks.multitask --minutes 10      start no arm after 10 minutes

The first table: the recipe ``multitask`` with a small model on four tasks, and on one of them with the same vocabulary, model,
batch size and number of updates, on the first 300 validation examples of each. The second: which of five subjects a caption
names, trained on English captions alone or together with German-English translation, evaluated on English and German captions.
Nothing was selected on these examples.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

from benchmarks.arms import FOLDER, Arm, done, figures_of, run
from benchmarks.document import show
from benchmarks.queue import parser_of, wanted
from benchmarks.results import spread
from weft.core.files import make_folder
from weft.core.io import write_text
from weft.core.options import find_file
from weft.recipe import RecipeError

SEEDS = (1, 2, 3)
HOME = FOLDER / "multitask"
EXAMPLES = 300
TASKS = {"translation": "bleu", "sentiment": "accuracy", "paraphrase": "accuracy", "entities": "entity_f1"}
METRICS = {
    "translation": "[bleu]",
    "sentiment": "[{type: accuracy, field: target}]",
    "paraphrase": "[{type: accuracy, field: target}]",
    "entities": "[{type: entity-f1, field: target, generated: true}]",
}
SMALL = (
    "structure.dim=128",
    "structure.encoder.layers=2",
    "structure.decoder.layers=2",
    "data.of.translation.of.tokenizer.vocab_size=4000",
    "learning.steps=800",
    "learning.batch_tokens=1200",
    "learning.schedule.warmup=80",
    "learning.optimizer.lr=2.0e-3",
    "learning.save_every=400",
    "evaluate.every=0",
)
"""A model that trains in about three minutes of one core."""
SUBJECTS = ("man", "woman", "boy", "girl", "dog")


def lines_of(name: str) -> list[str]:
    return find_file(name).read_text(encoding="utf-8-sig").splitlines()


def heads() -> dict[str, str]:
    """Write the first validation examples of each task; return them as overrides by option."""
    make_folder(HOME)
    sentences = "\n".join(lines_of("conll2003/dev.conll")).split("\n\n")
    pairs = lines_of("mrpc/train.tsv")
    files = {
        "val.de": lines_of("multi30k/val.de")[:EXAMPLES],
        "val.en": lines_of("multi30k/val.en")[:EXAMPLES],
        "sst2.tsv": lines_of("sst2/dev.tsv")[: EXAMPLES + 1],
        "conll": "\n\n".join(sentences[:EXAMPLES]).split("\n"),
        "mrpc-valid.tsv": pairs[: EXAMPLES + 1],
        "mrpc-train.tsv": [pairs[0], *pairs[EXAMPLES + 1 :]],
    }
    for name, lines in files.items():
        write_text(HOME / name, "\n".join(lines) + "\n")
    return {
        "translation.of.valid": f"[{HOME}/val.de, {HOME}/val.en]",
        "sentiment.of.valid": f"{HOME}/sst2.tsv",
        "entities.of.valid": f"{HOME}/conll",
        "paraphrase.of.valid": f"{HOME}/mrpc-valid.tsv",
        "paraphrase.of.train": f"{HOME}/mrpc-train.tsv",
    }


def arm(task: str, seed: int) -> Arm:
    """Training on all tasks, or on one; the other tasks then have the weight 0, so that the vocabulary is the same."""
    changes = [f"seed={seed}", *SMALL, *(f"data.of.{option}={value}" for option, value in heads().items())]
    trained = TASKS if task == "all" else (task,)
    if task != "all":
        changes += ["data.temperature=1", f"data.weights={{{', '.join(f'{name}: {int(name == task)}' for name in TASKS)}}}"]
    changes.append(f"evaluate.metrics={{{', '.join(f'{name}: {METRICS[name]}' for name in trained)}}}")
    return Arm(f"multitask-{task}-{seed}", "multitask", tuple(changes), tuple(f"{name}.{TASKS[name]}" for name in trained))


def captions(split: str, language: str) -> list[str]:
    """Captions whose English version names exactly one of the subjects, with that subject."""
    rows = list[str]()
    for own, english in zip(lines_of(f"multi30k/{split}.{language}"), lines_of(f"multi30k/{split}.en"), strict=True):
        found = {word for word in re.findall(r"[a-z]+", english.lower()) if word in SUBJECTS}
        if len(found) == 1 and "\t" not in own and '"' not in own:
            rows.append(f"{own}\t{found.pop()}")
    return rows


def transfer_arm(kind: str, seed: int) -> Arm:
    """Which subject a caption names: trained on English captions, evaluated on English and on German ones."""
    make_folder(HOME)
    for split, language in (("train", "en"), ("val", "en"), ("train", "de"), ("val", "de")):
        rows = captions(split, language)
        write_text(HOME / f"subject-{split}.{language}.tsv", "\n".join(["text\tlabel", *rows]) + "\n")
    tokenizer = {"type": "bpe", "vocab_size": 4000}

    def subject(language: str) -> dict[str, object]:
        files = {
            split: f"{HOME.resolve()}/subject-{name}.{language}.tsv" for split, name in (("train", "train"), ("valid", "val"))
        }
        inner = {"type": "labeled-text", **files, "tokenizer": tokenizer, "max_length": 100}
        return {"type": "text-to-text", "prefix": "subject: ", "of": inner}

    translation = {"type": "parallel-text", "tokenizer": tokenizer, "max_length": 100}
    translation |= {
        s: [str(find_file(f"multi30k/{n}.{x}").resolve()) for x in ("de", "en")]
        for s, n in (("train", "train"), ("valid", "val"))
    }
    weights = {"english": 1, "german": 0, "translation": 3 if kind == "with translation" else 0}
    data = {
        "type": "mixture",
        "of": {
            "english": subject("en"),
            "german": subject("de"),
            "translation": {"type": "text-to-text", "prefix": "translate German to English: ", "of": translation},
        },
        "weights": weights,
    }
    accuracy = "[{type: accuracy, field: target}]"
    steps = 1000 if kind == "with translation" else 250  # as many updates' worth of English examples
    changes = (
        f"seed={seed}", f"data={json.dumps(data)}", *(c for c in SMALL if "data." not in c and "steps" not in c),
        f"learning.steps={steps}", "data.max_examples=null", f"evaluate.metrics={{english: {accuracy}, german: {accuracy}}}",
    )  # fmt: skip
    return Arm(f"transfer-{kind.replace(' ', '-')}-{seed}", "multitask", changes, ("english.accuracy", "german.accuracy"))


KINDS = ("english alone", "with translation")


def arms() -> Iterator[Arm]:
    """All arms, those of the first seed first."""
    for seed in SEEDS:
        for task in ("all", *TASKS):
            yield arm(task, seed)
        for kind in KINDS:
            yield transfer_arm(kind, seed)


def cell(own: list[Arm], metric: str) -> str:
    """Mean and standard deviation over the seeds."""
    found = [figures["metrics"][metric] for one in own if (figures := figures_of(one)) is not None]
    scaled = [value if metric.endswith("bleu") else 100 * value for value in found]
    missing = f" ({len(found)} of {len(own)} seeds)" if 0 < len(found) < len(own) else ""
    return f"{spread(scaled)}{missing}" if found else "missing"


def tables() -> dict[str, list[str]]:
    tasks = ["| task | metric | most frequent answer | one model for all tasks | a model for the task |", "|---|---|---|---|---|"]
    constant = {"sentiment": f"{usual_answer('sst2/train.tsv', 'sst2.tsv', -1):.1f}"}
    constant["paraphrase"] = f"{usual_answer('mrpc-train.tsv', 'mrpc-valid.tsv', 0):.1f}"
    for task, metric in TASKS.items():
        own = [cell([arm(trained, seed) for seed in SEEDS], f"{task}.{metric}") for trained in ("all", task)]
        tasks.append(f"| {task} | {metric.replace('_', ' ')} | {constant.get(task, '')} | {own[0]} | {own[1]} |")
    transfer = ["| training | English captions | German captions |", "|---|---|---|"]
    for kind in KINDS:
        own = [cell([transfer_arm(kind, seed) for seed in SEEDS], f"{name}.accuracy") for name in ("english", "german")]
        transfer.append(f"| {kind} | {own[0]} | {own[1]} |")
    share = majority()
    return {"multitask": tasks, "transfer": [*transfer, f"| most frequent class | {share:.1f} | {share:.1f} |"]}


def usual_answer(train: str, valid: str, column: int) -> float:
    """Accuracy of the most frequent answer of training on the validation examples of a task, in %."""
    files = [HOME / name if (HOME / name).is_file() else find_file(name) for name in (train, valid)]
    answers = [[line.split("\t")[column] for line in file.read_text(encoding="utf-8-sig").splitlines()[1:]] for file in files]
    first = max(set(answers[0]), key=answers[0].count)
    return 100 * answers[1].count(first) / len(answers[1])


def majority() -> float:
    """Accuracy of the most frequent class of training on validation captions, in %."""
    train, valid = ([row.rpartition("\t")[2] for row in captions(split, "en")] for split in ("train", "val"))
    first = max(set(train), key=train.count)
    return 100 * valid.count(first) / len(valid)


def main() -> None:
    chosen = parser_of(__doc__).parse_args()
    began, failed = time.monotonic(), list[str]()
    try:
        for one in wanted(arms(), chosen, began):
            if figures_of(one) is None and not run(one):
                failed.append(one.name)
            if done(one.folder()):
                figures_of(one)
        for name, lines in tables().items():
            show(name, lines, **({"page": None} if chosen.table else {}))
    except RecipeError as missing:
        raise SystemExit(f"the data of these runs is expected under WEFT_DATA: {missing.problems[0].text}") from None
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
