"""A trained run's latent space, from Python and from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.commands import weft

from weft.core.contracts import Decodes, Encodes
from weft.data.text_files import read_labeled_texts, read_texts
from weft.evaluate import KneserNey, perplexity
from weft.generate import BeamSearch, Sampling
from weft.learning import read_weights, write_weights
from weft.systems.latent_text import space as latent
from weft.systems.latent_text.evaluate import Oracle
from weft.systems.latent_text.space import LatentSpace, between, open_latent, read_terms
from weft.systems.latent_text.transfer import judge_run, open_fluency, open_oracle
from weft.training import artifacts
from weft.training.recipes import read_run

PARTS = """\
  encoder: {{type: text-encoder, dim: 8, encoder: {mixer}, head: null}}
  decoder: {{type: language-model, dim: 8, decoder: {mixer}}}
learning: {{type: gradient, steps: 2, batch_tokens: 300}}
evaluate: {{search: {{type: greedy, max_length: 7}}}}
""".format(mixer="{type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}")
VAE = f"""\
device: cpu
data: {{type: autoencoding-text, train: texts.txt, tokenizer: word, max_length: 12, validation_fraction: 0.2}}
objective: elbo
structure:
  type: text-vae
  latent: 5
{PARTS}"""
LABELLED = f"""\
device: cpu
data:
  type: autoencoding-text
  train: texts.tsv
  label: label
  tokenizer: {{type: bpe, vocab_size: 40}}
  word_ids: true
  min_words: 1
  max_words: 13
  validation_fraction: 0.2
objective: elbo
structure:
  type: text-vae
  latent: 4
  label_dim: 4
  pooler: {{type: position-concat, positions: 14}}
{PARTS}"""
ROWS = [
    (f"the {thing} was {much}{word}", kind)
    for thing in ("food", "staff", "room")
    for much in ("", "very ", "not at all ")
    for kind, words in (("good", ("fine", "lovely")), ("bad", ("cold", "rude")))
    for word in words
]
TEXTS = [text for text, _ in ROWS]
A, B, C = "the food was fine", "the room was not at all rude", "the staff was very lovely"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with a latent space, vae and cls; the second heeds classes."""
    home = tmp_path_factory.mktemp("latent")
    (home / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (home / "blank.txt").write_text("\n \n")
    (home / "texts.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [("text", "label"), *ROWS]))
    for kind in ("good", "bad"):
        (home / f"{kind}.txt").write_text("".join(f"{text}\n" for text, label in ROWS if label == kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "draw_curve", lambda *args: None)
        for name, recipe in (("vae", VAE), ("cls", LABELLED)):
            (home / f"{name}.yaml").write_text(recipe)
            answer = weft("train", home / f"{name}.yaml", "--run", home / name, "--quiet")
            assert answer.code == 0, answer.err
            # Weights that have hardly been trained write the same everywhere; random ones of some size do not.
            weights = read_weights(home / name / "model.safetensors")
            torch.manual_seed(4)
            random = {key: torch.randn(tensor.shape) if tensor.ndim > 1 else tensor for key, tensor in weights.items()}
            write_weights(home / name / "model.safetensors", random)
    return home


@pytest.fixture(scope="module")
def space(home: Path) -> LatentSpace:
    return open_latent(home / "vae")


@pytest.fixture(scope="module")
def labelled(home: Path) -> LatentSpace:
    return open_latent(home / "cls")


@pytest.fixture
def written(space: LatentSpace, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The places that texts are written from."""
    places: list[np.ndarray] = []
    search = LatentSpace._search
    monkeypatch.setattr(LatentSpace, "_search", lambda self, z, *rest: (places.append(z), search(self, z, *rest))[1])
    return places


# ---------------------------------------------------------------------------------------------------------- read and write


def test_a_text_is_read_to_the_mean_of_its_posterior_whatever_else_is_read(space, monkeypatch):
    texts = [*TEXTS[::5], "", "the", TEXTS[0]]
    monkeypatch.setattr(latent, "BUDGET", 16)  # several batches, with padding in some
    found = space.encode(texts)
    assert found.shape == (len(texts), 5) and np.array_equal(found[0], found[-1])
    assert len(np.unique(found[:-1].round(3), axis=0)) == len(texts) - 1
    codec: Any = space.codec
    for text, mean in zip(texts, found, strict=True):
        ids = space.source.frame.around([codec.encode("source", text)])
        with torch.inference_mode():
            alone = space.model.posterior(latent.collate([latent.Instance(source=ids)])["source"]).mean_BP
        np.testing.assert_allclose(mean, alone[0], rtol=1e-4, atol=1e-5)
    assert space.encode([]).shape == (0, 5)


def test_texts_that_are_too_long_are_counted(home):
    space = open_latent(home / "vae")
    long = " ".join(["food"] * 40)
    np.testing.assert_allclose(space.encode([long, "the food", long])[0], space.encode([" ".join(["food"] * 12)])[0], rtol=1e-5)
    assert space.cut == 2


def test_texts_with_unknown_words_are_counted(home):
    space = open_latent(home / "vae")
    space.encode(["the zorgon was fine", A, "the zorgon was fine", "", " ", "food " * 12 + "zorgon"])
    assert (space.read, space.unknown, space.cut) == (4, 2, 1), "what is cut off is not read"
    by_word = open_latent(home / "cls")
    by_word.encode(["", A, "the fööd"])  # by words, also an empty text has one, which is unknown
    assert (by_word.read, by_word.unknown) == (2, 1)


def test_what_is_written_does_not_depend_on_the_other_rows(space, monkeypatch):
    z = space.encode(TEXTS)
    whole = space.write(z)
    assert len(set(whole)) > 2
    assert whole == [space.write(z[i : i + 1])[0] for i in range(len(z))]
    drawn = partial(Sampling, temperature=1.5, seed=4)
    once = space.write(z, search=drawn)
    assert once[:5] == space.write(z[:5], search=drawn) and once != whole
    monkeypatch.setattr(latent, "BATCH", 3)
    assert space.write(z, search=drawn) == once and space.write(z) == whole
    assert space.write(z[:0]) == []


def test_reconstruct_reads_and_writes_with_any_search(space):
    assert space.reconstruct(TEXTS[:5]) == space.write(space.encode(TEXTS[:5]))
    assert space.reconstruct(TEXTS[:5]) == space.run.generate(TEXTS[:5])
    for search in (BeamSearch(beams=3, max_length=7), partial(Sampling, top_k=3, max_length=7)):
        assert list(space.rewrite(TEXTS[:5], search=search, batch=2)) == space.reconstruct(TEXTS[:5], search=search)


def test_blank_texts_stay_empty_and_blanks_between_words_say_nothing(space, labelled):
    first, second = space.reconstruct([A, B])
    assert space.reconstruct([A, "", B, " "]) == [first, "", second, ""] and first and second
    assert (labelled.encode([f" {A.replace(' ', '   ')} "]) == labelled.encode([A])).all()  # read word by word


@pytest.mark.parametrize(
    ("z", "said"),
    [
        (np.zeros(5), "places are N x 5 numbers, but these are 5"),
        (np.zeros((2, 4)), "but these are 2 x 4"),
        (np.full((1, 5), np.nan), "not finite"),
    ],
)
def test_places_that_are_none(space, z, said):
    with pytest.raises(ValueError, match=said):
        space.write(z)


@pytest.mark.parametrize(
    "call", [lambda s: s.encode("one"), lambda s: s.reconstruct("one"), lambda s: s.guide(["a"], "b", ["c"])]
)
def test_one_text_is_no_list(space, call):
    with pytest.raises(ValueError, match="give a list of texts"):
        call(space)


# -------------------------------------------------------------------------------------------------------------- draw and walk


def test_what_is_drawn_follows_from_seed_and_number(space):
    state = torch.random.get_rng_state()
    z = space.draw(6, seed=1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.array_equal(z[:3], space.draw(3, seed=1)) and not np.array_equal(z, space.draw(6, seed=2))
    assert len(np.unique(z, axis=0)) == 6 and abs(space.draw(400).std() - 1) < 0.05
    assert space.sample(6, seed=1) == space.write(z) and space.sample(2, seed=1) == space.sample(6, seed=1)[:2]
    with pytest.raises(ValueError, match="-1 places cannot be drawn"):
        space.draw(-1)


@pytest.mark.parametrize("how", ["linear", "spherical"])
def test_the_ends_of_a_way_are_the_texts_read_and_written(space, how, written):
    found = space.interpolate(A, B, how=how)
    assert [step.tau for step in found] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])
    [places] = written
    ends = space.encode([A, B])
    assert np.array_equal(places[[0, -1]], ends) and not np.allclose(places[5], ends[0])
    assert [found[0].text, found[-1].text] == space.reconstruct([A, B])
    assert [step.text for step in found[::5]] == [step.text for step in space.interpolate(A, B, 3, how)]
    assert [step.text for step in space.interpolate(A, B, 2, how)] == space.reconstruct([A, B])


def test_between_is_a_line_or_an_arc():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7))
    for tau in (0, 0.3, 1):
        np.testing.assert_allclose(between(a, b, tau), (1 - tau) * a + tau * b)
        for other in (3 * a, a, 0 * a, -a):  # no arc
            np.testing.assert_allclose(between(a, other, tau, "spherical"), between(a, other, tau), atol=1e-6)
    for how in ("linear", "spherical"):
        assert np.array_equal(between(a, b, 0, how), a) and np.array_equal(between(a, b, 1, how), b)
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    points = [between(a, b, tau, "spherical") for tau in np.linspace(0, 1, 5)]
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)  # on the sphere, at equal angles
    cosines = [p @ q for p, q in pairwise(points)]
    np.testing.assert_allclose(cosines, np.cos(np.arccos(a @ b) / 4))
    with pytest.raises(ValueError, match="no way 'round': it is linear or spherical"):
        between(a, b, 0.5, "round")  # pyright: ignore[reportArgumentType]


def test_a_way_needs_two_ends(space):
    with pytest.raises(ValueError, match="1 steps leave no way"):
        space.interpolate(A, B, 1)


def test_analogies(space, written):
    assert space.analogy(A, A, C) == space.analogy(A, B, C, scale=0) == space.reconstruct([C])[0]
    z_a, z_b, z_c = space.encode([A, B, C])
    np.testing.assert_allclose(written[0][0], z_c, rtol=1e-5)
    space.analogy(A, B, C, 0.5)
    np.testing.assert_allclose(written[-1][0], z_c + 0.5 * (z_b - z_a), rtol=1e-6)
    space.arithmetic([(1, C), (0.5, B), (-0.5, A)])
    np.testing.assert_allclose(written[-1], written[-2], atol=1e-5)
    assert space.arithmetic([(1, C)]) == space.reconstruct([C])[0]
    with pytest.raises(ValueError, match="no terms"):
        space.arithmetic([])


def test_terms():
    assert read_terms(["a b", "-", "2", "c", "+", ".5", "d"]) == [(1, "a b"), (-2, "c"), (0.5, "d")]
    assert read_terms(["-", "a", "+", "3"]) == [(-1, "a"), (1, "3")]  # a number that is a text
    assert read_terms(["-0.5", "a", "+", "-2", "b", "-.5", "c", "-", "-1e1", "d"]) == [
        (-0.5, "a"),
        (-2, "b"),
        (-0.5, "c"),
        (10, "d"),
    ]
    assert read_terms(["-", "a", "+", "-3"]) == [(-1, "a"), (1, "-3")]
    for words, said in (
        (["a", "0.5", "b"], "between 'a' and '0.5' there is no sign"),
        (["a", "-0.5"], "between 'a' and '-0.5' there is no sign"),
        (["a", "b"], "between 'a' and 'b' there is no sign"),
        (["a", "+"], "no text after '\\+'"),
        (["a", "-", "+", "b"], "no text after '-'"),
    ):
        with pytest.raises(ValueError, match=said):
            read_terms(words)


# --------------------------------------------------------------------------------------------------------------------- steer


def test_guiding_goes_along_the_difference_of_two_means(space, written):
    good, bad = TEXTS[::4], TEXTS[2::3]
    z_good, z_bad = space.encode(good).mean(0), space.encode(bad).mean(0)
    np.testing.assert_allclose(space.direction(good, bad), z_good - z_bad, atol=1e-5)
    assert space.guide([A, B], good, bad, scale=0) == space.guide([A, B], good, good) == space.reconstruct([A, B])
    space.guide([A, B], good, bad, -2)
    np.testing.assert_allclose(written[-1], space.encode([A, B]) - 2 * (z_good - z_bad), rtol=1e-4, atol=1e-4)
    for towards, away, name in (([], bad, "towards"), (good, [], "away")):
        with pytest.raises(ValueError, match=f"no texts in {name}"):
            space.guide([A], towards, away)


def test_a_model_that_heeds_no_class_says_what_can_be_done_instead(space):
    for call in (
        lambda: space.transfer([A], "good"),
        lambda: space.sample(2, "good"),
        lambda: space.reconstruct([A], "good"),
        lambda: judge_run(space.run, [("a", "b"), ("c", "d")]),
    ):
        with pytest.raises(ValueError, match=r"vae \(TextVAE\) .*guide moves texts from one group to another"):
            call()


def test_texts_of_a_class(labelled):
    assert labelled.classes == ("bad", "good")
    own = [label for _, label in ROWS]
    rewritten = {label: labelled.transfer(TEXTS, label) for label in labelled.classes}
    assert rewritten["good"] != rewritten["bad"]
    mixed = [rewritten[label][row] for row, label in enumerate(own)]
    assert labelled.transfer(TEXTS, own) == labelled.reconstruct(TEXTS, own) == mixed
    assert list(labelled.rewrite(TEXTS, None, own, batch=5)) == mixed
    good, bad = (labelled.sample(8, label, seed=3) for label in ("good", "bad"))
    assert good != bad and good[:3] == labelled.sample(3, "good", seed=3)
    assert labelled.sample(4, seed=3) == [bad[0], good[1], bad[2], good[3]]  # in turn
    first, *_, last = labelled.interpolate(A, B, label="bad")
    assert [first.text, last.text] == labelled.reconstruct([A, B], "bad")


def test_classes_that_are_not_there(labelled):
    for call in (
        lambda: labelled.transfer([A], "goood"),
        lambda: labelled.sample(1, "goood"),
        lambda: labelled.write([], "goood"),
    ):
        with pytest.raises(ValueError, match=r"has no class 'goood'; did you mean 'good'\? \(it has: bad, good\)"):
            call()
    with pytest.raises(ValueError, match=r"texts of a class, and none was given: 'bad' or 'good' .--label bad, on the command"):
        labelled.reconstruct([A])
    with pytest.raises(ValueError, match="a class is needed"):
        labelled.transfer([A], None)
    for classes in (["bad"], ["bad"] * 3):
        with pytest.raises(ValueError, match=f"{len(classes)} classes for 2 texts"):
            labelled.transfer([A, B], classes)


def test_a_model_that_only_draws_texts_of_a_class(labelled, monkeypatch):
    model = labelled.model
    monkeypatch.setattr(model, "labelled", False)
    monkeypatch.setattr(model, "prior", lambda rows, label_B: torch.randn(rows, 4) + 5.0 * label_B[:, None])
    write = model.decoder.memory_from
    monkeypatch.setattr(model, "memory_from", lambda z_BP, label_B=None: write(z_BP, torch.zeros(len(z_BP), dtype=torch.long)))
    assert labelled.sample(3, "good") != labelled.sample(3, "bad")
    with pytest.raises(ValueError, match=r"texts of a class can be drawn .weft generate RUN --label good.*guide"):
        labelled.transfer([A], "good")
    found = judge_run(labelled.run, ROWS * 2, split="valid")
    assert found.transfer is None and found.rewritten == () and "transfer_accuracy" not in found.metric_values()


@pytest.mark.parametrize(
    ("protocols", "said"),
    [((Decodes, Encodes), "there is weft generate and weft embed for it"), ((), "train a text-vae")],
)
def test_runs_without_a_latent_space(protocols, said):
    run: Any = SimpleNamespace(model=SimpleNamespace(provides=lambda: protocols), folder="runs/x")
    with pytest.raises(ValueError, match=f"runs/x has no latent space, as a text-vae has one: {said}"):
        LatentSpace(run)


def test_texts_of_more_words_than_those_of_training_are_cut_after_the_last(labelled):
    words = [f"{word}" for word, _ in zip(("the food was fine and " * 9).split(), range(40), strict=False)]
    before = labelled.cut
    short, whole = " ".join(words[:13]), " ".join(words)
    assert np.array_equal(*labelled.encode([short, whole])), "position-concat has places for 13 words"
    assert labelled.cut == before + 1
    assert labelled.transfer([A, whole], "good") == [labelled.transfer([text], "good")[0] for text in (A, short)]


def test_what_python_says_of_a_run_that_writes_texts(labelled, space):
    for run in (labelled.run, space.run):
        with pytest.raises(
            ValueError, match=r"generates text and does not classify: use weft.systems.latent_text.space.open_latent"
        ):
            run.predict([A])
    with pytest.raises(ValueError, match=r"generates class-conditionally; .*transfer.texts, CLASS. rewrites"):
        labelled.run.generate([A])
    assert len(space.run.generate([A])) == 1


# --------------------------------------------------------------------------------------------------------------------- judge


def test_both_settings_are_judged(labelled):
    oracle = Oracle.train(*map(list, zip(*ROWS, strict=True)))
    heard: list[str] = []
    found = judge_run(labelled.run, oracle, known=TEXTS, split="valid", seed=2, tell=lambda text, *_: heard.append(text))
    real = [labelled.run.dataset("valid")[1].raw(row) for row in range(len(labelled.run.dataset("valid")[1]))]
    wanted, drawn = zip(*found.drawn, strict=True)
    assert list(wanted) == [("bad", "good")[row % 2] for row in range(len(real))]
    assert list(drawn) == labelled.sample(len(real), seed=2)
    other = {"good": "bad", "bad": "good"}
    assert sorted((text, label) for text, label, _ in found.rewritten) == sorted((r["source"], other[r["label"]]) for r in real)
    assert len({label for _, label, _ in found.rewritten[:4]}) == 2, "files come class by class"
    assert [text for _, _, text in found.rewritten] == [labelled.transfer([t], label)[0] for t, label, _ in found.rewritten]
    metric_values = found.metric_values()
    assert (
        metric_values["oracle_accuracy"] == oracle.accuracy(*zip(*((r["source"], r["label"]) for r in real), strict=True)) == 1.0
    )
    assert metric_values["generation_accuracy"] == oracle.accuracy(drawn, wanted)
    assert {"generation_bleu_4", "generation_self_bleu", "transfer_bleu_4", "transfer_g_score"} <= set(metric_values)
    assert metric_values["transfer_source_accuracy"] == 0.0 and found.shared == len(real)
    assert any(f"trained with {len(real)} of the real texts" in warning for warning in found.warnings())
    there = len(labelled.run.dataset("train")[1])
    assert any(f"trained with {there} of the texts that the run was trained with" in said for said in found.warnings())
    assert f"drawing texts: {len(real)} of {len(real)}" in heard and f"rewriting texts: 1 of {len(real)}" in heard
    fewer = judge_run(labelled.run, ROWS, split="valid", most=2)
    assert fewer.generation.texts == 2 and fewer.oracle_accuracy == 1.0


def test_an_oracle_of_texts_of_its_own_and_of_other_classes(labelled):
    rows = [(f"a {text}", label) for text, label in ROWS]
    found = judge_run(labelled.run, rows, split="valid")
    assert not any("was trained with" in said or "no class of the run" in said for said in found.warnings())
    more = judge_run(labelled.run, [*rows, ("so so la la", "other"), ("so so", "other")], split="valid")
    said = "the oracle may say other, which is no class of the run: that counts as wrong"
    assert more.strange == ("other",) and said in more.warnings()


def test_a_run_is_judged_by_other_files_when_its_own_are_gone(home, tmp_path):
    (tmp_path / "texts.tsv").write_bytes((home / "texts.tsv").read_bytes())
    (tmp_path / "run.yaml").write_text(LABELLED)
    read_run(tmp_path / "run.yaml").train(tmp_path / "run", quiet=True)
    (tmp_path / "texts.tsv").unlink()
    found = judge_run(tmp_path / "run", ROWS, files=[home / "texts.tsv"])
    assert found.shared == len(ROWS) and found.trained_shared == 0


def test_what_cannot_be_judged(labelled, home):
    with pytest.raises(ValueError, match=r"does not know the class 'bad' of the run .it knows: good, so-so"):
        judge_run(home / "cls", [("a b", "good"), ("c d", "so-so")] * 2)
    with pytest.raises(ValueError, match="most is 1"):
        judge_run(labelled.run, ROWS, most=1)
    with pytest.raises(ValueError, match="1 human references, but"):
        judge_run(labelled.run, ROWS, split="valid", human_references=[["a"]])


def test_oracles_and_texts_from_files(home, tmp_path):
    rows = read_texts(home / "texts.tsv")
    assert rows == ROWS and [row.text for row in read_texts(home / "texts.txt")] == TEXTS
    sorted_ = read_labeled_texts([f"good={home / 'good.txt'}", f"bad={home / 'bad.txt'}"])
    assert sorted(sorted_) == sorted(ROWS)
    (tmp_path / "x=y.txt").write_text("a b\n")
    (tmp_path / "y.txt").write_text("c d\n")
    assert read_labeled_texts([f" a=b ={tmp_path}/y.txt", f"good={tmp_path}/x=y.txt"]) == [("c d", "a=b"), ("a b", "good")]
    oracle, known = open_oracle([str(home / "texts.tsv")])
    assert known == TEXTS and oracle.labels == ("bad", "good")
    oracle.save(tmp_path / "oracle.json")
    again, unknown = open_oracle([str(tmp_path / "oracle.json")])
    assert unknown == [] and again.predict(TEXTS) == oracle.predict(TEXTS)
    (tmp_path / "once.txt").write_text("a zorgon\n")
    model, read = open_fluency([str(home / "texts.tsv"), str(tmp_path / "once.txt")])
    words = {word for text in TEXTS for word in text.split()}
    assert read == [*TEXTS, "a zorgon"] and set(model.vocabulary) - {"</s>", "<unk>"} == words, (
        "what stands there once is unknown"
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.txt", None, "gone.txt: file not found"),
        ("empty.txt", b"\n \n", "empty.txt: no texts found"),
        ("x.txt", b"a\n\xff\n", "x.txt:2: byte 0xff is not valid UTF-8"),
        ("x.tsv", b"words\tlabel\na\tb\n", "x.tsv:2: no column 'text' or"),
        ("x.tsv", b"text\tlabel\na\n", "x.tsv:2: 1 columns, but the header has 2"),
        ("x.txt", b"a\n", "x.txt: texts without a label; give a table with a column of labels, or CLASS="),
    ],
)
def test_files_that_have_no_sorted_texts(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_labeled_texts([str(tmp_path / name)])


# ------------------------------------------------------------------------------------------------------------------ commands


def test_help_of_every_latent_command_imports_nothing_heavy():
    code = (
        "import sys\nfrom weft.cli.app import main\nfrom weft.cli.commands.latent import latent\n"
        "names = [c.name or c.callback.__name__ for c in latent.registered_commands]\n"
        "for words in [['latent', '--help'], *(['latent', 'r', name, '-h'] for name in names)]:\n"
        "    try: main(words)\n"
        "    except SystemExit as end: assert not end.code, words\n"
        "print(sorted({'torch', 'numpy', 'tokenizers', 'safetensors', 'ruamel', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "interpolate" in done.stdout


def given(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_lines_are_read_and_written(home, space):
    lines = [*TEXTS[:3], "", *TEXTS * 2]
    answer = weft("latent", home / "vae", "reconstruct", given=given(lines))
    assert answer.code == 0 and answer.err == ""
    assert answer.out.split("\n") == [*space.reconstruct(lines), ""]
    assert weft("latent", home / "vae", "reconstruct", home / "texts.txt").out.split("\n")[:-1] == space.reconstruct(TEXTS)
    as_json = weft("latent", home / "vae", "reconstruct", "--beams", "3", "--max-length", "7", "--json", given=given([A]))
    assert json.loads(as_json.out) == {"input": A, "text": space.reconstruct([A], search=BeamSearch(beams=3, max_length=7))[0]}
    long = weft("latent", home / "vae", "reconstruct", given=given([" ".join(["food"] * 40)]))
    assert long.err == "truncated 1 text to 12 tokens\n"
    many = weft("transfer", home / "cls", "--to", "good", given=given([A, "the food " * 9]))
    assert many.err == "truncated 1 text to 13 words or 256 tokens\n"


def test_unknown_words_are_said(home):
    lines = given(["the zorgon was fine", A, "the fööd was qwertz", ""])
    told = "words outside the vocabulary: they are encoded as <unk> and decoded as \ufffd or as another word\n"
    assert weft("latent", home / "vae", "reconstruct", given=lines).err == f"2 of 3 texts have {told}"
    assert weft("transfer", home / "cls", "--to", "good", given=lines).err == f"2 of 3 texts have {told}"
    assert weft("latent", home / "vae", "analogy", A, B, "zorgon").err == f"1 of 3 texts has {told}"


def test_what_comes_before_a_line_that_cannot_be_read_is_answered(home, space):
    answer = weft("latent", home / "vae", "reconstruct", given=f"{A}\n".encode() + b"\xff\n")
    assert (
        answer.code == 2 and answer.out == space.reconstruct([A])[0] + "\n" and "standard input:2: not valid UTF-8" in answer.err
    )


def test_texts_are_drawn(home, space, labelled):
    answer = weft("latent", home / "vae", "sample", "--samples", "4", "--seed", "5")
    assert answer.out.split("\n")[:-1] == space.sample(4, seed=5)
    hot = weft("latent", home / "vae", "sample", "--samples", "4", "--seed", "5", "--temperature", "2", "--top-p", "0.9")
    assert hot.out.split("\n")[:-1] == space.sample(4, None, 5, partial(Sampling, temperature=2, top_p=0.9, seed=5))
    found = weft("latent", home / "cls", "sample", "--samples", "2", "--json")
    texts = labelled.sample(2)
    assert [json.loads(line) for line in found.out.splitlines()] == [
        {"label": "bad", "text": texts[0]},
        {"label": "good", "text": texts[1]},
    ]
    plain = weft("latent", home / "cls", "sample", "--samples", "2")
    assert plain.out == f"bad\t{texts[0]}\ngood\t{texts[1]}\n"
    asked = weft("latent", home / "cls", "sample", "--samples", "1", "--label", "good")
    assert asked.out == f"{labelled.sample(1, 'good')[0]}\n"


def test_a_way_is_printed_and_written_as_a_page(home, space, tmp_path):
    out = tmp_path / "new" / "way.html"
    answer = weft("latent", home / "vae", "interpolate", A, B, "--steps", "3", "--spherical", "--out", out)
    found = space.interpolate(A, B, 3, "spherical")
    assert answer.out == "".join(f"{tau:.2f}\t{text}\n" for tau, text in found) and answer.err == f"wrote {out}\n"
    assert "spherical" in out.read_text() and A in out.read_text()
    as_json = weft("latent", home / "vae", "interpolate", A, B, "--steps", "4", "--json").out.splitlines()
    assert [json.loads(line)["tau"] for line in as_json] == [0, 0.333333, 0.666667, 1]


def test_analogy_arithmetic_and_guide(home, space):
    run = ("latent", home / "vae")
    assert weft(*run, "analogy", A, B, C, "--scale", "-0.5").out == space.analogy(A, B, C, -0.5) + "\n"
    assert json.loads(weft(*run, "analogy", A, A, C, "--json").out)["text"] == space.reconstruct([C])[0]
    terms = [(1.0, A), (-0.5, B), (1.0, C)]
    found = json.loads(weft(*run, "arithmetic", A, "-", "0.5", B, "+", C, "--json").out)
    assert found == {"terms": [list(term) for term in terms], "text": space.arithmetic(terms)}
    for words in (["-0.5", A, "+", B], ["-", "0.5", A, "+", B], ["--seed", "1", "-0.5", A, "+", B], ["-0.5", A, "--", "+1", B]):
        assert weft(*run, "arithmetic", *words).out == space.arithmetic([(-0.5, A), (1.0, B)]) + "\n", words
    groups = ("--target", home / "good.txt", "--source", home / "bad.txt")
    good, bad = ([row.text for row in read_texts(home / f"{kind}.txt")] for kind in ("good", "bad"))
    assert weft(*run, "steer", *groups, "--scale", "3", given=given(TEXTS[:4])).out.split("\n")[:-1] == space.guide(
        TEXTS[:4], good, bad, 3
    )


def test_other_files_of_each_class(home):
    by_class = weft("evaluate", home / "cls", f"good={home}/good.txt", f"bad={home}/bad.txt", "--json")
    as_table = weft("evaluate", home / "cls", home / "texts.tsv", "--json")
    found, wanted = (json.loads(answer.out)["loss"] for answer in (by_class, as_table))
    assert found == pytest.approx(wanted, rel=1e-6)


def test_map(home, space, tmp_path):
    out = tmp_path / "map.png"
    answer = weft("latent", home / "vae", "plot", home / "texts.tsv", "--out", out, "--max-texts", "20")
    assert answer.code == 0 and answer.out.startswith(f"wrote {out}: 20 texts, ") and "encoding 20 texts" in answer.err
    assert out.read_bytes()[:4] == b"\x89PNG"
    found = json.loads(weft("latent", home / "cls", "plot", "valid", "--out", out, "--json").out)
    assert found["file"] == str(out) and 0 < sum(found["variance"]) <= 1 and found["texts"] > 3
    by_class = ["plot", f"good={home}/good.txt", f"bad={home}/bad.txt", "--out", out, "--json"]
    assert json.loads(weft("latent", home / "cls", *by_class).out)["texts"] == len(ROWS)


def test_transfer_and_texts_of_a_class(home, labelled):
    answer = weft("transfer", home / "cls", "--to", "good", given=given([*TEXTS, ""]))
    assert answer.code == 0 and answer.out.split("\n") == [*labelled.transfer([*TEXTS, ""], "good"), ""]
    as_json = weft("transfer", home / "cls", "--to", "bad", "--json", home / "texts.txt").out.splitlines()
    assert json.loads(as_json[0]) == {"input": TEXTS[0], "label": "bad", "text": labelled.transfer(TEXTS[:1], "bad")[0]}
    drawn = weft("generate", home / "cls", "--label", "good", "--samples", "3", "--seed", "2")
    assert drawn.out.split("\n")[:-1] == labelled.sample(3, "good", seed=2)
    best = weft("generate", home / "cls", "--label", "good", "--beams", "3", "--n-best", "2", "--json")
    rows = [json.loads(line) for line in best.out.splitlines()]
    assert len(rows) == 10 and rows[0]["label"] == "good" and len(rows[0]["answers"]) == 2


def test_generate_goes_on_as_before(home, space):
    assert weft("generate", home / "vae", given=given(TEXTS)).out.split("\n")[:-1] == space.reconstruct(TEXTS)


def test_evaluate_judges_texts_of_a_class(home):
    both = ("--oracle", f"good={home / 'good.txt'}", "--oracle", f"bad={home / 'bad.txt'}")
    answer = weft("evaluate", home / "cls", "--split", "valid", *both, "--json")
    assert answer.code == 0, answer.err
    metric_values, wanted = json.loads(answer.out), judge_run(home / "cls", ROWS, split="valid").metric_values()
    assert {name: metric_values[name] for name in wanted} == wanted and "loss" in metric_values
    assert any("of the real texts: give it others" in remark for remark in metric_values["remarks"]), (
        "also for who reads the JSON"
    )
    assert json.loads((home / "cls" / "metrics-valid.json").read_text())["transfer_bleu_4"] == wanted["transfer_bleu_4"]
    plain = weft("evaluate", home / "cls", "--split", "valid", *both).out
    assert plain.count("of the real texts: give it others") == 1
    assert ["transfer_accuracy", f"{wanted['transfer_accuracy']:.4f}"] in [line.split() for line in plain.splitlines()]
    assert "oracle_accuracy" not in weft("evaluate", home / "cls", "--split", "valid").out
    number = str(wanted["generation_texts"])
    assert number.isdigit() and ["generation_texts", number] in [line.split() for line in plain.splitlines()]


def test_evaluate_says_how_usual_texts_of_a_class_are(home):
    words = ("evaluate", home / "cls", "--split", "valid", "--oracle", home / "texts.tsv", "--json")
    files = ("--fluency", home / "good.txt", "--fluency", home / "texts.tsv")
    answer = weft(*words, *files)
    assert answer.code == 0, answer.err
    texts = [text for text, label in ROWS if label == "good"] + TEXTS
    model = KneserNey([text.split() for text in texts], order=4, min_count=2)
    metric_values, found = json.loads(answer.out), judge_run(home / "cls", ROWS, split="valid", model=model)
    assert {name: metric_values[name] for name in found.metric_values()} == found.metric_values()
    assert metric_values["generation_word_perplexity"] == perplexity(model, [text for _, text in found.drawn]).per_word
    real = found.generation.texts
    assert f"warning: the language model was trained with {real} of the real texts: give it others" in metric_values["remarks"]
    assert "generation_perplexity" not in json.loads(weft(*words).out)
    assert found.shared == real and found.model_shared == 0, "its texts were not given"
    assert "except those of generated texts" in " ".join(weft("evaluate", "--help").out.split())


def test_predict_names_what_a_run_with_a_latent_space_can_do(home):
    for name, can in (
        ("vae", "weft generate, weft embed, weft latent"),
        ("cls", "weft transfer --to CLASS, weft generate --label CLASS, weft embed, weft latent"),
    ):
        answer = weft("predict", home / name, given=b"a\n")
        assert answer.code == 2 and answer.err.endswith(f"has no classifier, tagger or other predictor; it supports {can}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latent", "{vae}", "plot", "nothing"], "there is no file nothing, and splits are called train, valid, test"),
        (["latent", "{vae}", "plot", "test"], "the data has no split 'test'; available: train, valid"),
        (["latent", "{vae}", "plot", "valid", "--out", "x.pdf"], "x.pdf: unknown format .pdf; use .png"),
        (["latent", "{vae}", "interpolate", "a", "b", "--out", "x.txt"], "x.txt: unknown format .txt; use .html"),
        (["latent", "{vae}", "interpolate", "a", "b", "--steps", "1"], "Input should be greater than or equal to 2"),
        (["latent", "{vae}", "arithmetic", "a", "b"], "between 'a' and 'b' there is no sign"),
        (["latent", "{vae}", "arithmetic", "a", "+", "b", "--lable", "x"], "unknown option --lable; did you mean '--label'?"),
        (["latent", "{vae}", "arithmetic", "--lable=x", "a"], "unknown option --lable=x; did you mean '--label'?"),
        (["latent", "{vae}", "arithmetic", "a", "-b"], "unknown option -b; put a space after a sign"),
        (["latent", "{vae}", "analogy", "a", "b", "c", "--scale", "inf"], "the scale is inf, but it must be a number between"),
        (["latent", "{vae}", "analogy", "a", "b", "c", "--scale", "1e39"], "between -1,000,000 and 1,000,000"),
        (["latent", "{vae}", "plot", "{home}/good.txt", "{home}/bad.txt"], "good.txt: texts without a label"),
        (["latent", "{vae}", "plot", "good={home}/good.txt", "valid"], "valid is a split of the run's data, which stands alone"),
        (["latent", "{vae}", "sample", "--beams", "2", "--top-k", "3"], "--beams cannot be combined with sampling"),
        (["latent", "{vae}", "sample", "--label", "good"], "draws texts of no class"),
        (["latent", "{vae}", "steer", "--target", "gone.txt", "--source", "gone.txt"], "gone.txt: file not found"),
        (["latent", "gone", "sample"], "there is no folder gone"),
        (["latent", "{vae}"], "Missing command"),
        (["transfer", "{vae}", "--to", "good"], "cannot rewrite a text to be of a class"),
        (["transfer", "{cls}", "--to", "goood"], "has no class 'goood'; did you mean 'good'? (it has: bad, good)"),
        (["generate", "{vae}", "--label", "good"], "draws texts of no class"),
        (["generate", "{cls}", "--label", "goood"], "did you mean 'good'?"),
        (["generate", "{vae}", "--samples", "3"], "--samples 3 is the number of class-conditional samples; add --label CLASS"),
        (["generate", "{cls}", "file.txt", "--label", "good"], "does not read file.txt"),
        (["generate", "{cls}"], "is class-conditional (bad, good); sample texts with weft generate"),
        (["latent", "{cls}", "reconstruct"], "of a class, and none was given: 'bad' or 'good' (--label bad,"),
        (["evaluate", "{vae}", "--split", "valid", "--oracle", "{home}/texts.tsv"], "draws texts of no class"),
        (["evaluate", "{cls}", "--oracle", "gone.json"], "there is no file gone.json"),
        (
            ["evaluate", "{cls}", "data.max_words=3"],
            "data.max_words=3 changes how data files are read, but no file is given",
        ),
        (
            ["evaluate", "{cls}", "data.valid={home}/texts.tsv"],
            "the splits of a trained run cannot be changed",
        ),
        (["evaluate", "{cls}", "good={home}/good.txt", "{home}/texts.tsv"], "has no class but other files have one"),
        (["evaluate", "{cls}", "good={home}/good.txt"], "test has one class (good)"),
        (["evaluate", "{cls}", "good={home}/good.txt", "fine={home}/bad.txt"], "fine"),
        (["evaluate", "{cls}", "--split", "valid", "--oracle", "{home}/texts.txt"], "texts without a label"),
        (
            ["evaluate", "{cls}", "--split", "valid", "--fluency", "{home}/texts.txt"],
            "--fluency evaluates generated texts; add --oracle FILE",
        ),
        (["evaluate", "{cls}", "--oracle", "{home}/texts.tsv", "--fluency", "gone.txt"], "gone.txt: file not found"),
        (["evaluate", "{cls}", "--oracle", "{home}/texts.tsv", "--fluency", "{home}/blank.txt"], "blank.txt: no texts found"),
    ],
)
def test_mistakes_are_explained(home, words, said):
    places = {"vae": home / "vae", "cls": home / "cls", "home": home}
    answer = weft(*(word.format(**places) for word in words), given=b"a\n")
    assert answer.code == 2
    assert said in " ".join(answer.err.replace("│", " ").split()), answer.err
