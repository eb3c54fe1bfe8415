"""``weft show``: the examples that training sees, in a page that loads nothing and runs nothing."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.commands import weft
from tests.data.sources.image_files import class_files, write_files

from weft.inspect.contact_sheet import (
    MAX_CHARACTERS,
    MAX_TOKENS,
    Picture,
    SheetExample,
    SheetSection,
    Strip,
    sheet_image,
    sheet_page,
)
from weft.training.examples import VERSIONS, sheet_sections
from weft.training.recipes import read_run_text

VIT = "structure: {type: vit, dim: 8, layers: 1, heads: 2, hidden: 8, patch: 4}\nobjective: classification\n"
LEARNING = "learning: {type: gradient, steps: 2, batch_tokens: 64}\n"


def image_recipe(folder: Path, augment: str = "", objective: str = VIT) -> str:
    photos = write_files(folder / "photos", class_files(8))
    data = f"{{type: labeled-images, train: {photos}, size: 8, validation_fraction: 0.25{augment}}}"
    return f"data: {data}\n{objective}{LEARNING}"


def sections_of(recipe: str, folder: Path, *splits: str, number: int = 4) -> list[SheetSection]:
    return sheet_sections(read_run_text(recipe, "r.yaml", folder), splits, number)


def test_augmented_images_are_those_of_training(tmp_path: Path) -> None:
    recipe = image_recipe(tmp_path, ", augment: [{type: horizontal-flip, probability: 0.5}, {type: mixup, alpha: 1.0}]")
    train, valid = sections_of(recipe, tmp_path)
    assert (train.name, valid.name) == ("train", "valid") and train.rows + valid.rows == 16 and len(train.examples) == 4
    run = read_run_text(recipe, "r.yaml", tmp_path)
    from weft.data import Feed
    from weft.objectives import Classification

    corpus = run.data().open()
    feed = Feed(corpus.splits["train"], Classification(corpus.codec.info, 8), key=(run.seed, 0, "main"), budget=64)
    field = corpus.codec.info.images()[0]
    batches = [feed.batch(draw) for draw in range(VERSIONS * len(feed))]
    seen = {
        (row, draw // len(feed)): field.displayed(image)
        for draw, batch in enumerate(batches)
        for row, image in zip(batch.rows, batch["text"].data.numpy(), strict=True)
    }
    for example in train.examples:
        stored, *versions = example.pictures
        assert np.array_equal(stored.pixels, field.displayed(corpus.splits["train"][example.row]["image"]))
        assert stored.caption in ("blue", "red") and len(versions) == VERSIONS
        for epoch, version in enumerate(versions):
            assert np.array_equal(version.pixels, seen[example.row, epoch])
            assert re.fullmatch(r"(blue|red) [01]\.\d\d \+ (blue|red)", version.caption)
    assert all(len(example.pictures) == 1 for example in valid.examples)  # what is evaluated is what is stored


def test_masked_patches_are_gray(tmp_path: Path) -> None:
    objective = (
        "structure: {type: image-encoder, dim: 8, embedder: {type: patch, size: 4}, encoder: {type: transformer, layers: 1, "
        "layer: {mixer: {type: multihead, heads: 2}}}}\nobjective: {type: masked-patches, patch_size: 4}\n"
    )
    (train,) = sections_of(image_recipe(tmp_path, "", objective), tmp_path, "train")
    for example in train.examples:
        for version in example.pictures[1:]:
            blocks = (version.pixels == 128).all(2).reshape(2, 4, 2, 4).all((1, 3))
            assert blocks.sum() == 3
        assert not example.strips  # indices of patches are no tokens


def text_recipe(folder: Path, objective: str, structure: str = "{type: text-encoder, dim: 8}") -> str:
    (folder / "t.txt").write_text("".join(f"line {i} of several words that are here\n" for i in range(20)))
    data = f"{{type: plain-text, train: {folder / 't.txt'}, validation_fraction: 0.2, tokenizer: word}}"
    return f"data: {data}\nstructure: {structure}\nobjective: {objective}\n{LEARNING}"


def test_masked_tokens_are_marked_and_their_targets_shown(tmp_path: Path) -> None:
    train, _ = sections_of(text_recipe(tmp_path, "masked-lm"), tmp_path)
    for example in train.examples:
        text, targets = example.strips
        words = dict(example.facts)["text"].split()
        assert len(text.marked) == len(targets.tokens) > 0
        restored = list(text.tokens)
        for at, token in zip(sorted(text.marked), targets.tokens, strict=True):
            restored[at] = token
        assert [token for token in restored if not token.startswith("<")] == words


@pytest.mark.parametrize(
    ("objective", "structure"),
    [("next-token", "{type: language-model, dim: 8}"), ("{type: denoising, noise: text-infilling}", "{type: seq2seq, dim: 8}")],
)
def test_other_objectives_show_their_inputs(tmp_path: Path, objective: str, structure: str) -> None:
    train, valid = sections_of(text_recipe(tmp_path, objective, structure), tmp_path, number=2)
    assert len(train.examples) == len(valid.examples) == 2
    assert all(example.strips and not example.pictures for example in train.examples)
    with pytest.raises(ValueError, match=r"the data has no split 'dev'; available: train, valid"):
        sections_of(text_recipe(tmp_path, objective, structure), tmp_path, "dev")


def test_a_page_escapes_texts_and_bounds_sizes(tmp_path: Path) -> None:
    hostile = '</bdi><script>alert("x")</script>\x1b'
    noise = np.random.default_rng(0).integers(0, 256, (2000, 1000, 5)).astype(np.uint8)
    example = SheetExample(0, [(hostile, hostile * 100)], [Picture(noise, hostile)], [Strip(hostile, [hostile] * 1000)])
    text = sheet_page([SheetSection(hostile, 9, [example] * 3, [hostile])], tmp_path / "a.html", hostile).read_text()
    assert "<script" not in text and "\x1b" not in text and "https://" not in text and "script-src 'none'" in text
    assert text.count('class="token"') == 3 * MAX_TOKENS and f"and {1000 - MAX_TOKENS} more" in text
    assert f"({len(hostile) * 100:,} characters)" in text and len(hostile) * 100 > MAX_CHARACTERS
    assert len(text) < 2_000_000
    image = sheet_image([SheetSection("x", 9, [example] * 3)], tmp_path / "a.png")
    assert image is not None and Image.open(image).size[0] < 2000
    assert sheet_image([SheetSection("x", 1, [SheetExample(0, [])])], tmp_path / "b.png") is None
    many = SheetExample(0, [], [Picture(np.zeros((1, 1, 1), np.uint8), "")] * 10)
    found = sheet_image([SheetSection("x", 1, [many] * 1000)], tmp_path / "c.png")
    assert found is not None and np.prod(Image.open(io.BytesIO(found.read_bytes())).size) < 60_000_000


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(image_recipe(tmp_path, ", augment: [horizontal-flip]"))
    answer = weft("show", "r.yaml", "--split", "train", "-n", "3", "--out", "sheet/x.html")
    assert answer.code == 0, answer
    assert (tmp_path / "sheet/x.html").read_text().count("<article>") == 3 and (tmp_path / "sheet/x.png").is_file()
    assert weft("show", "r.yaml", "--out", "x.txt").code == 2
    answer = weft("show", "r.yaml", "--split", "nowhere")
    assert answer.code == 2 and "no split 'nowhere'" in answer.err
