"""Ids of a published model and of the data: mismatches are reported by weft check, before any text is read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.commands import weft

from weft.core.fields import Info, TextField
from weft.core.hub import name_of_model
from weft.data import AutoencodingText
from weft.models import bert, gpt2
from weft.pretrained import save
from weft.recipe import RecipeError
from weft.training.dry_run import check
from weft.training.recipes import read_run_text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine", "poor", "film", "play", "very"]
SPARE = 4


def published(target: Path, build: Any, rows: int, words: list[str]) -> Path:
    torch.manual_seed(0)
    structure = build(dim=8, layers=1, heads=2, length=24)
    save(structure(Info({"text": TextField("text", rows, max_length=24)})), structure, target)
    if words:
        (target / "vocab.txt").write_text("\n".join(words) + "\n")
    return target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny BERT with more vectors than its tokenizer has ids."""
    return published(tmp_path / "bert", partial(bert, hidden=8), len(WORDS) + SPARE, WORDS)


def run_of(tmp_path: Path, tokenizer: str, structure: str, changes: tuple[str, ...] = ()) -> Any:
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "good film\tyes\nbad play\tno\n" * 4)
    recipe = f"""
data: {{type: labeled-text, train: train.tsv, valid: train.tsv, tokenizer: {tokenizer}, max_length: 20}}
structure: {structure}
objective: classification
learning: {{type: gradient, steps: 1, batch_tokens: 50}}
evaluate: {{every: 0}}
"""
    return read_run_text(recipe, "r.yaml", tmp_path, changes)


def checked(tmp_path: Path, folder: Path, tokenizer: str, trains: bool = True) -> Any:
    """What ``check`` lets through can be trained."""
    run = run_of(tmp_path, tokenizer, f"{{type: pretrained, from: {folder}, task: classification, pooler: mean}}")
    check(run)
    return run.train(tmp_path / "run", quiet=True) if trains else None


def vocab(trained: Any) -> int:
    return trained.codec.info["text"].vocab


def assert_published_table(trained: Any) -> None:
    """The embedding table has one row per id of the tokenizer, taken from the published table."""
    assert vocab(trained) <= len(WORDS) + SPARE
    assert any("embed" in name and p.shape[0] == vocab(trained) for name, p in trained.model.named_parameters())
    assert trained.predict(["good film"])[0] in ("yes", "no")


def of(target: Path) -> str:
    return f"{{type: pretrained, from: {target}}}"


def vocabulary(tmp_path: Path, words: list[str]) -> Path:
    file = tmp_path / "other.txt"
    file.write_text("\n".join(words) + "\n")
    return file


def test_its_own_tokenizer_passes_also_with_ids_that_have_spare_vectors(tmp_path: Path, folder: Path) -> None:
    assert_published_table(checked(tmp_path, folder, of(folder)))


@pytest.mark.parametrize("number", [1, SPARE])
def test_ids_may_be_added_as_far_as_there_are_vectors(tmp_path: Path, folder: Path, number: int) -> None:
    trained = checked(tmp_path, folder, f"{{type: with-sentinels, tokenizer: {of(folder)}, count: {number}}}")
    assert_published_table(trained)
    assert vocab(trained) == len(WORDS) + number


@pytest.mark.parametrize(
    "tokenizer", ["word", "bpe", "{type: word, vocab_size: 16}", "{type: with-sentinels, tokenizer: word, count: 2}"]
)
def test_a_tokenizer_that_learns_is_refused(tmp_path: Path, folder: Path, tokenizer: str) -> None:
    message = rf"r\.yaml:3: structure: {folder} has other token ids than the tokenizer of 'text': [\w-]+ is trained on the data; "
    with pytest.raises(RecipeError, match=message + rf"set it to \{{type: pretrained, from: {folder}\}}$"):
        checked(tmp_path, folder, tokenizer)


@pytest.mark.parametrize(("number", "has"), [(-1, 11), (SPARE + 1, 17)])
def test_another_number_of_ids_is_refused(tmp_path: Path, folder: Path, number: int, has: int) -> None:
    words = WORDS[:number] if number < 0 else [*WORDS, *(f"new{i}" for i in range(number))]
    with pytest.raises(RecipeError, match=rf"pretrained has {has} ids, the model 12 \(padded to 16\); set it to"):
        checked(tmp_path, folder, of(vocabulary(tmp_path, words)))
    with pytest.raises(RecipeError, match=r"byte has 263 ids, the model"):
        checked(tmp_path, folder, "byte")


def test_other_tokens_are_told_where_most_differ(tmp_path: Path, folder: Path) -> None:
    few = [*WORDS[:9], "cinema", "stage", "so"]
    checked(tmp_path, folder, of(vocabulary(tmp_path, few)))
    with pytest.raises(RecipeError, match=r"only 5 of the 12 tokens of pretrained are the model's; set it to"):
        checked(tmp_path, folder, of(vocabulary(tmp_path, WORDS[:5] + WORDS[6:] + WORDS[5:6])))


def test_without_a_tokenizer_beside_it_only_the_number_can_tell(tmp_path: Path) -> None:
    folder = published(tmp_path / "bare", partial(bert, hidden=8), 16, [])
    with pytest.raises(
        RecipeError, match=r"has other token ids than the tokenizer of 'text': word has at most 15 ids, the model 16$"
    ):
        checked(tmp_path, folder, "{type: word, vocab_size: 15}")
    with pytest.raises(RecipeError, match=r"pretrained has 12 ids, the model 16$"):
        checked(tmp_path, folder, of(vocabulary(tmp_path, WORDS)))
    checked(tmp_path, folder, "{type: word, vocab_size: 16}", trains=False)  # it may turn out to have as many


def test_weights_of_a_run_are_let_through(tmp_path: Path) -> None:
    """The same words may be learned again."""
    small = "{type: classifier, dim: 8, encoder: {type: cnn, layers: 1}}"
    run_of(tmp_path, "word", small).train(tmp_path / "first", quiet=True)
    again = run_of(tmp_path, "word", small, (f"structure.weights={tmp_path / 'first'}",))
    check(again)
    again.train(tmp_path / "second", quiet=True)


VAE = """
data:
  type: autoencoding-text
  train: train.tsv
  validation_fraction: 0.3
  max_length: 16
  tokenizer: {source}
  target_tokenizer: {target}
structure:
  type: text-vae
  latent: 4
  encoder: {{type: pretrained, from: {bert}, task: encode}}
  decoder: {{type: pretrained, from: {gpt}}}
  injections: [latent-embedding]
objective: elbo
learning: {{type: gradient, steps: 1, batch_tokens: 50}}
evaluate: {{every: 0}}
stages:
  - {{name: more, structure: "${{structure}}", learning: {{type: gradient, steps: 1, batch_tokens: 50}}, start: {{"*": "*"}}}}
"""


def test_structures_inside_a_structure_each_know_their_own_field(tmp_path: Path, folder: Path) -> None:
    gpt = published(tmp_path / "gpt", gpt2, len(WORDS) + 1, [*WORDS, "so"])
    (tmp_path / "train.tsv").write_text("text\n" + "".join(f"good film {i}\n" for i in range(9)))

    def wrong(source: str, target: str) -> list[str]:
        recipe = VAE.format(source=source, target=target, bert=folder, gpt=gpt)
        run = read_run_text(recipe, "r.yaml", tmp_path)
        try:
            check(run)
        except RecipeError as error:
            return [f"{problem.path} {problem.text.partition(': ')[2].partition(' ')[0]}" for problem in error.problems]
        return []

    assert wrong(of(folder), of(gpt)) == []
    assert wrong("word", of(gpt)) == ["structure.encoder word"]
    assert wrong(of(folder), "{type: word, split: whitespace}") == ["structure.decoder word"]
    assert wrong("word", "byte") == ["structure.encoder word", "structure.decoder byte"]
    assert wrong(of(gpt), of(folder)) == ["structure.decoder pretrained"]  # 13 ids fit into 16 vectors, 12 are too few for 13


def test_training_reports_it_before_any_data_is_read(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.tsv").write_text("text\n" + "".join(f"good film {i}\n" for i in range(9)))
    gpt = published(tmp_path / "gpt", gpt2, len(WORDS) + 1, [*WORDS, "so"])
    (tmp_path / "r.yaml").write_text(VAE.format(source="word", target=of(gpt), bert=folder, gpt=gpt))

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the data was read")

    monkeypatch.setattr(AutoencodingText, "open", read)
    found = weft("train", tmp_path / "r.yaml", "--run", tmp_path / "run")
    assert found.code == 2 and "structure.encoder" in found.err and "word is trained on the data" in found.err
    assert not (tmp_path / "run").exists()


def test_a_packaged_model_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tiny_package"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        "weft.core.hub.PACKAGED", {"tiny": ("tiny_package", "model", ""), "none": ("no_such_package", "model", "")}
    )
    assert name_of_model(package / "model") == "tiny"
    assert name_of_model(str(package)) == str(package)
