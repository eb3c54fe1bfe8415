"""A published model in our hands: loaded from its folder with its weights, used, and written back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from weft.blocks import Interpolated
from weft.core.contracts import Structure, Tokenizer
from weft.core.example import CHOICE_LABELS
from weft.core.fields import Info
from weft.core.io import check_free, read_json, whole_folder, write_json
from weft.core.registry import Build
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.models.zoo.tensor_names import some, their_name
from weft.pretrained.folder import Published
from weft.pretrained.load_weights import Taken
from weft.pretrained.save import OF_THE_FILE, copy_beside, labels, write_layout


@dataclass
class Loaded:
    """A published model in our hands.

    Args:
        model: The structure, with its weights, in evaluation mode.
        structure: The choices it was built of.
        info: The fields it was built for.
        published: Where it came from.
        taken: Which weights it has.
    """

    model: Structure
    structure: Build[Structure]
    info: Info
    published: Published
    taken: Taken

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The one beside it. Raises ValueError where there is none, or where it gives ids that the model does not have."""
        place, texts = self.published.path, self.info.tokenized()
        if not texts:
            raise ValueError(f"{place} reads images: it has no tokenizer")
        found = PretrainedTokenizer(from_=str(place))
        if found.vocab > texts[0].vocab:
            raise ValueError(f"{place}: its tokenizer has {found.vocab} ids, but config.json: vocab_size is {texts[0].vocab}")
        return found

    def save(self, folder: str | Path) -> Path:
        """Write the model as it is now in the layout it came from, with all that was said of it and stood beside it.

        That is the rest of its config.json (special ids, the classes' names), its tokenizer, how it generates, how its vectors
        are pooled: the package transformers loads the folder and uses it.

        Args:
            folder: One that is not there yet, or is empty; it appears when all is written.
        """
        old = self.published.path
        check_free(Path(folder))
        with whole_folder(Path(folder)) as new:
            write_layout(self.model, self.structure, new, kind=self.published.layout.type)
            self._write_rest(old, new)
        return Path(folder)

    def _write_rest(self, old: Path, new: Path) -> None:
        rest = {key: value for key, value in self.published.config.items() if key not in OF_THE_FILE}
        answers = [
            f for f in self.info.fields.values() if f.kind in ("label", "labels", "number", "tags") and f.labels != CHOICE_LABELS
        ]
        named = labels(answers[0].labels or self.published.config.labels()) if answers else {}
        write_json(new / "config.json", {**rest, **read_json(new / "config.json"), **named})
        copy_beside(old, new)


def load(name: str | Path, *, task: str | None = None, side: int | None = None) -> Loaded:
    """A published model: ``weft.pretrained.load("minilm")``.

    Args:
        name: A folder in the Hugging Face layout, a packaged model's name, or a hub's.
        task: What it shall be for; None = what it was published for. Only for another task may a head be new.
        side: Height and width of the images in pixels; None = the published ones. The positions are interpolated to others.
    """
    published = Published(name)
    structure = published.structure(task)
    info = published.info(structure, task)
    if side is not None:
        if published.layout.stretched is None:
            raise ValueError(f"{published.path} reads texts: side is for images; leave it out")
        structure = published.layout.stretched(structure, Interpolated)
        seen = {name: replace(f, max_length=side) if f.kind == "image" else f for name, f in info.fields.items()}
        info = replace(info, fields=seen)
    found = published.our_tensors(structure)
    model = published.build(structure, info, found)
    taken = published.give(model, structure, found, whole=True)
    if taken.new and task in (None, *published.tasks):
        missing = [their_name(n, published.layout.rules(structure)) for n in taken.new]
        raise ValueError(f"{published.path}: its weights do not fit its config.json: missing: {some(missing)}")
    return Loaded(model.eval(), structure, info, published, taken)
