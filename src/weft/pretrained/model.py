"""Load a published model with its weights, use it, and save it in the layout it came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from weft.blocks import InterpolatedPositionEmbedder
from weft.core.contracts import Structure, Tokenizer
from weft.core.fields import ImageField, Info
from weft.core.files import check_free, complete_folder
from weft.core.registry import Build
from weft.data.tokenizers.pretrained import PretrainedTokenizer
from weft.models.zoo.tensor_names import shorten, their_name
from weft.pretrained.folder import PublishedModel
from weft.pretrained.load_weights import LoadReport
from weft.pretrained.saving import Origin, write_folder
from weft.pretrained.sums import write_sums


@dataclass
class PretrainedModel:
    """A published model, loaded with its weights.

    Args:
        model: The structure, in evaluation mode.
        structure: Its factory.
        info: The fields it was built for.
        published: The folder it came from.
        report: Which weights were loaded.
    """

    model: Structure
    structure: Build[Structure]
    info: Info
    published: PublishedModel
    report: LoadReport

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer in the same folder. Raises ValueError where there is none, or where it has more ids than the model."""
        path, texts = self.published.path, self.info.tokenized()
        if not texts:
            raise ValueError(f"{path} is an image model: it has no tokenizer")
        tokenizer = PretrainedTokenizer(from_=str(path))
        if tokenizer.vocab > texts[0].vocab:
            raise ValueError(f"{path}: the tokenizer has {tokenizer.vocab} ids, but config.json has vocab_size {texts[0].vocab}")
        return tokenizer

    def save(self, folder: str | Path) -> Path:
        """Save the model, with its current weights, in the layout it came from; the package transformers loads the folder.

        For the task it was published for, config.json, the class of transformers and unused tensors are as they were. The other
        files of the original folder (tokenizer, generation and pooling configuration) are copied.

        Args:
            folder: A new or empty folder. It appears only when everything is written.
        """
        published = self.published
        check_free(Path(folder))
        origin = Origin(published.config, published.bare, published.read(self.report.unused))
        with complete_folder(Path(folder)) as new:
            write_folder(self.model, self.structure, new, model_type=published.family.model_type, origin=origin)
            published.layout.write_companions(new)
            write_sums(new)
        return Path(folder)


def load(name: str | Path, *, task: str | None = None, side: int | None = None) -> PretrainedModel:
    """Load a published model: ``weft.pretrained.load("minilm")``.

    Args:
        name: A folder in the Hugging Face layout, a GGUF file, a packaged model's name, or a name on the hub.
        task: The task; None = the one it was published for. A head may be newly initialized only for another task.
        side: Height and width of the images in pixels; None = as published. Position embeddings are interpolated to another size.
    """
    published = PublishedModel(name)
    structure = published.structure(task)
    info = published.info(structure, task)
    if side is not None:
        if published.family.with_positions is None:
            raise ValueError(f"{published.path} is a text model: side applies to image models only; remove it")
        structure = published.family.with_positions(structure, InterpolatedPositionEmbedder)
        resized = {
            name: replace(f, height=side, width=side) if isinstance(f, ImageField) else f for name, f in info.fields.items()
        }
        info = replace(info, fields=resized)
    found = published.our_tensors(structure)
    model = published.build(structure, info, found)
    report = published.load_into(model, structure, found, strict=True)
    if report.new and task in (None, *published.tasks):
        missing = [their_name(n, published.family.rules(structure)) for n in report.new]
        raise ValueError(f"{published.path}: the weights do not fit config.json: missing: {shorten(missing)}")
    return PretrainedModel(model.eval(), structure, info, published, report)
