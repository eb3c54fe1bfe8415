"""Small synthetic files at the paths of the packaged recipes' data, so that the recipes can be checked and run."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

_PEOPLE, _CITIES = ("Anna", "Peter", "Maria", "Jan"), ("Berlin", "Oslo", "Rome")
_NOUNS = {"Hund": "dog", "Mann": "man", "Ball": "ball", "Haus": "house", "Kind": "child"}


def _choice(noun: str, city: str) -> str:
    choices = [{"label": "A", "text": f"in {city}"}, {"label": "B", "text": "nowhere"}]
    return json.dumps({"question": {"stem": f"Where is the {noun}?", "choices": choices}, "answerKey": "A"}) + "\n"


def _paragraph(noun: str) -> dict[str, Any]:
    answers = [{"text": city, "answer_start": len(f"The {noun} is in ")} for city in _CITIES[:1]]
    questions = [{"id": f"{noun}-1", "question": f"Where is the {noun}?", "answers": answers}]
    return {"context": f"The {noun} is in {_CITIES[0]}.", "qas": questions}


def _draw(path: Path, brightness: int, seed: int) -> None:
    """An image of 32 x 32 noisy pixels of one brightness."""
    pixels_HWC = np.random.default_rng(seed).integers(brightness - 20, brightness + 20, (32, 32, 3))
    Image.fromarray(pixels_HWC.astype(np.uint8)).save(path)


def write_stand_ins(folder: Path) -> Path:
    """Write them all below ``folder``, which then can be the value of WEFT_DATA."""
    captions = [(f"Ein {a} und ein {b} .", f"A {_NOUNS[a]} and a {_NOUNS[b]} .") for a in _NOUNS for b in _NOUNS]
    reviews = [f"a {word} story about {noun} number {i} \t{label}" for i in range(4) for noun in _NOUNS.values()
               for word, label in (("fine", 1), ("dull", 0))]  # fmt: skip
    sentences = [
        f"{person} NNP B-NP I-PER\nlives VBZ B-VP O\nin IN B-PP O\n{city} NNP B-NP I-LOC\n. . O O\n\n"
        for person in _PEOPLE
        for city in _CITIES
    ]
    lines = [f"{person}: I saw the {noun} in {city}.\n" for person in _PEOPLE for noun in _NOUNS.values() for city in _CITIES]
    files = {
        "sst2/train.tsv": "sentence\tlabel\n" + "\n".join(reviews) + "\n",
        "sst2/dev.tsv": "sentence\tlabel\n" + "\n".join(reviews[::5]) + "\n",
        "conll2003/train.conll": "-DOCSTART- -X- O O\n\n" + "".join(sentences),
        "conll2003/dev.conll": "".join(sentences[::3]),
        "shakespeare/input.txt": "".join(lines),
        "stsb/train.csv": "".join(f"a {a} here,a {b} there,{5.0 * (a == b)}\n" for a in _NOUNS.values() for b in _NOUNS.values()),
        "stsb/dev.csv": "".join(f"a {a} here,a {a} there,{i}.0\n" for i, a in enumerate(_NOUNS.values())),
        "commonsenseqa/train.jsonl": "".join(_choice(noun, city) for noun in _NOUNS.values() for city in _CITIES),
        "xquad/train.json": json.dumps({"data": [{"paragraphs": [_paragraph(noun) for noun in _NOUNS.values()]}]}),
        "yelp/positive.txt": "".join(f"the {noun} in {city} was fine .\n" for noun in _NOUNS.values() for city in _CITIES),
        "yelp/negative.txt": "".join(f"the {noun} in {city} was dull .\n" for noun in _NOUNS.values() for city in _CITIES),
    }
    pairs = [f"{int(a == b)}\t1\t2\ta {a} here\tthere is a {b}\n" for a in _NOUNS.values() for b in _NOUNS.values()]
    files["mrpc/train.tsv"] = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(pairs)
    captions = [(german, english, german.replace("Ein ", "Un ").replace(" und ", " et ")) for german, english in captions]
    for split, some in (("train", captions), ("val", captions[::4])):
        for side, language in enumerate(("de", "en", "fr")):
            files[f"multi30k/{split}.{language}"] = "".join(pair[side] + "\n" for pair in some)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "cifar10").mkdir(exist_ok=True)
    with tarfile.open(folder / "cifar10/train.tar.gz", "w:gz") as archive:
        for number, (label, brightness) in enumerate((("cat", 40), ("ship", 200)) * 30):
            image = folder / "cifar10" / f"{label}-{number // 2}.png"
            _draw(image, brightness, number)
            archive.add(image, f"{label}/{image.name}")
    return folder
