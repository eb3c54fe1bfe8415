"""``weft new``: which files of a folder are data, and which split each of them is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.experiments.scaffold import DetectedData, detect_data, scratch_recipe
from weft.training.dry_run import check
from weft.training.recipes import read_run_text


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def shown(detected: DetectedData, folder: Path) -> dict[str, object]:
    """The files of each split, or of each class, relative to the folder."""

    def relative(files: list[str]) -> str:
        return " ".join(os.path.relpath(file, folder) for file in files)

    return {
        split: {label: relative(own) for label, own in files.items()} if isinstance(files, dict) else relative(files)
        for split, files in detected.splits.items()
    }


def reviews(*folders: str) -> dict[str, str]:
    return {f"{folder}/{n}_7.txt": f"a {folder[-3:]} film {n}\n" for folder in folders for n in range(9)}


IMDB = reviews("train/pos", "train/neg", "train/unsup", "test/pos", "test/neg")


@pytest.mark.parametrize("source", [None, "labeled-text"])
@pytest.mark.parametrize("extra", ["unsup", "other"])
def test_a_folder_of_texts_without_labels_beside_classes_is_left_out(tmp_path: Path, source: str | None, extra: str) -> None:
    """The layout of IMDB: the test split stays apart, the unlabeled reviews are left out and named."""
    files = {name.replace("unsup", extra): text for name, text in IMDB.items()}
    write(tmp_path, files | {"README": "About.", "imdb.vocab": "film\n", "train/urls_pos.txt": "a\n"})
    detected = detect_data([str(tmp_path)], source)
    splits = {split: {label: f"{split}/{label}" for label in ("neg", "pos")} for split in ("train", "test")}
    assert (detected.source, shown(detected, tmp_path)) == ("labeled-text", splits)
    assert any(remark.startswith("left out") and remark.endswith(f"/train/{extra}") for remark in detected.remarks)
    check(read_run_text(scratch_recipe(detected, tmp_path), "a", tmp_path))


def test_unlabeled_texts_are_left_out_without_a_test_split_too(tmp_path: Path) -> None:
    write(tmp_path, reviews("train/pos", "train/neg", "train/unsup"))
    for given in (tmp_path, tmp_path / "train"):
        assert list(detect_data([str(given)]).splits["train"]) == ["neg", "pos"]


@pytest.mark.parametrize("given", [["."], ["train", "dev", "test"]])
def test_folders_of_texts_are_splits_by_their_names(tmp_path: Path, given: list[str]) -> None:
    """Also where a file name has a word that is a split."""
    write(
        tmp_path, {f"{split}/{name}.txt": "a text\n" * 9 for split in ("train", "dev", "test") for name in ("a_test", "b", "c")}
    )
    detected = detect_data([str(tmp_path / name) for name in given])
    assert (detected.source, shown(detected, tmp_path)) == ("plain-text", {"train": "train", "valid": "dev", "test": "test"})


def test_files_in_folders_of_splits_keep_their_format(tmp_path: Path) -> None:
    write(tmp_path, {f"{split}/{n}.conll": "Ulm B-LOC\nis O\n\n" * 20 for split in ("train", "valid") for n in range(2)})
    detected = detect_data([str(tmp_path)])
    splits = {split: f"{split}/0.conll {split}/1.conll" for split in ("train", "valid")}
    assert (detected.source, shown(detected, tmp_path)) == ("tagged-text", splits)


@pytest.mark.parametrize("listed", [False, True])
def test_a_list_of_classes_beside_tables_is_no_data(tmp_path: Path, listed: bool) -> None:
    """The layout of AG News: a class, a title and a text per row, without a header."""
    rows = "".join(
        f'"{1 + n % 4}","The title {n}","The long text of the article with title {n} is here to read"\n' for n in range(60)
    )
    files = {"train.csv": rows, "test.csv": rows.replace("title", "name"), "classes.txt": "World\nSports\nBusiness\nSci/Tech\n"}
    write(tmp_path, files)
    detected = detect_data([str(tmp_path / name) for name in files] if listed else [str(tmp_path)])
    assert (detected.source, shown(detected, tmp_path)) == ("labeled-text", {"train": "train.csv", "test": "test.csv"})
    assert detected.columns == {"text": "column3", "label": "column1"}
    assert f"ignored, as files about the data: {tmp_path / 'classes.txt'}" in detected.remarks


@pytest.mark.parametrize("name", ["sample_submission.csv", "sampleSubmission.csv", "submission.csv"])
def test_the_sample_of_a_submission_is_no_data(tmp_path: Path, name: str) -> None:
    rows = [f"{n},a text about a fire {n}" for n in range(60)]
    train = "id,text,target\n" + "".join(f"{row},{n % 2}\n" for n, row in enumerate(rows))
    write(tmp_path, {"train.csv": train, "test.csv": "id,text\n" + "\n".join(rows) + "\n", name: "id,target\n1,0\n2,0\n"})
    detected = detect_data([str(tmp_path)])
    assert (detected.source, shown(detected, tmp_path)) == ("labeled-text", {"train": "train.csv"})
    assert f"ignored, as files about the data: {tmp_path / name}" in detected.remarks
    assert any("weft predict RUN" in remark for remark in detected.remarks)


@pytest.mark.parametrize(
    ("header", "source"),
    [("", "labeled-text"), ("Class,Title,Description\n", "labeled-text"), ("Class,First,Second\n", "sentence-pairs")],
)
def test_a_title_and_its_text_are_no_pair(tmp_path: Path, header: str, source: str) -> None:
    rows = "".join(f"{1 + n % 4},The title {n},The long text of the article with title {n} is here to read\n" for n in range(60))
    write(tmp_path, {"a.csv": header + rows})
    assert detect_data([str(tmp_path / "a.csv")]).source == source


def test_two_texts_of_similar_length_without_a_header_are_a_pair(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": "".join(f"the film number {n}\ta film with the number {n}\t{n % 2}\n" for n in range(60))})
    assert detect_data([str(tmp_path / "a.tsv")]).source == "sentence-pairs"
