"""Commands of runs with a latent space: weft latent and transfer."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import pytest
from tests.commands import weft
from tests.systems.latent_text.small_runs import EXAMPLES, TEXTS, A, B, C

from weft.data.text_files import read_texts
from weft.evaluate import KneserNey
from weft.generate import BeamSearch, Sampling
from weft.inference.perplexity import perplexity
from weft.systems.latent_text.run_evaluation import evaluate_run


def test_help_of_every_latent_command_imports_nothing_heavy():
    code = (
        "import sys\nfrom weft.cli.app import main\nfrom weft.systems.latent_text.commands import latent\n"
        "names = [c.name or c.callback.__name__ for c in latent.registered_commands]\n"
        "for words in [['latent', '--help'], *(['latent', 'r', name, '-h'] for name in names)]:\n"
        "    try: main(words)\n"
        "    except SystemExit as end: assert not end.code, words\n"
        "print(sorted({'torch', 'numpy', 'tokenizers', 'safetensors', 'ruamel', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "interpolate" in done.stdout


def stdin(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_reconstruct_rewrites_input_lines(home, space):
    lines = [*TEXTS[:3], "", *TEXTS * 2]
    answer = weft("latent", home / "vae", "reconstruct", given=stdin(lines))
    assert answer.code == 0 and answer.err == ""
    assert answer.out.split("\n") == [*space.reconstruct(lines), ""]
    assert weft("latent", home / "vae", "reconstruct", home / "texts.txt").out.split("\n")[:-1] == space.reconstruct(TEXTS)
    as_json = weft("latent", home / "vae", "reconstruct", "--beams", "3", "--max-length", "7", "--json", given=stdin([A]))
    assert json.loads(as_json.out) == {"input": A, "text": space.reconstruct([A], search=BeamSearch(beams=3, max_length=7))[0]}
    long = weft("latent", home / "vae", "reconstruct", given=stdin([" ".join(["food"] * 40)]))
    assert long.err == "truncated 1 text to 12 tokens\n"
    many = weft("transfer", home / "conditional", "--to", "good", given=stdin([A, "the food " * 9]))
    assert many.err == "truncated 1 text to 13 words or 256 tokens\n"


def test_unknown_words_are_reported(home):
    lines = stdin(["the zorgon was fine", A, "the fööd was qwertz", ""])
    warning = "words outside the vocabulary: they are encoded as <unk> and decoded as \ufffd or as another word\n"
    assert weft("latent", home / "vae", "reconstruct", given=lines).err == f"2 of 3 texts have {warning}"
    assert weft("transfer", home / "conditional", "--to", "good", given=lines).err == f"2 of 3 texts have {warning}"
    assert weft("latent", home / "vae", "analogy", A, B, "zorgon").err == f"1 of 3 texts has {warning}"


def test_lines_before_an_invalid_line_are_processed(home, space):
    answer = weft("latent", home / "vae", "reconstruct", given=f"{A}\n".encode() + b"\xff\n")
    assert (
        answer.code == 2 and answer.out == space.reconstruct([A])[0] + "\n" and "standard input:2: not valid UTF-8" in answer.err
    )


def test_sample_command_prints_samples_with_their_class(home, space, conditional):
    answer = weft("latent", home / "vae", "sample", "--samples", "4", "--seed", "5")
    assert answer.out.split("\n")[:-1] == space.sample(4, seed=5)
    hot = weft("latent", home / "vae", "sample", "--samples", "4", "--seed", "5", "--temperature", "2", "--top-p", "0.9")
    assert hot.out.split("\n")[:-1] == space.sample(4, None, 5, partial(Sampling, temperature=2, top_p=0.9, seed=5))
    found = weft("latent", home / "conditional", "sample", "--samples", "2", "--json")
    texts = conditional.sample(2)
    assert [json.loads(line) for line in found.out.splitlines()] == [
        {"label": "bad", "text": texts[0]},
        {"label": "good", "text": texts[1]},
    ]
    plain = weft("latent", home / "conditional", "sample", "--samples", "2")
    assert plain.out == f"bad\t{texts[0]}\ngood\t{texts[1]}\n"
    of_class = weft("latent", home / "conditional", "sample", "--samples", "1", "--label", "good")
    assert of_class.out == f"{conditional.sample(1, 'good')[0]}\n"


def test_interpolation_is_printed_and_written_as_a_page(home, space, tmp_path):
    out = tmp_path / "new" / "interpolation.html"
    answer = weft("latent", home / "vae", "interpolate", A, B, "--steps", "3", "--spherical", "--out", out)
    found = space.interpolate(A, B, 3, "spherical")
    assert answer.out == "".join(f"{tau:.2f}\t{text}\n" for tau, text in found) and answer.err == f"wrote {out}\n"
    assert "spherical" in out.read_text() and A in out.read_text()
    as_json = weft("latent", home / "vae", "interpolate", A, B, "--steps", "4", "--json").out.splitlines()
    assert [json.loads(line)["tau"] for line in as_json] == [0, 0.333333, 0.666667, 1]


def test_analogy_arithmetic_and_steer_commands(home, space):
    run = ("latent", home / "vae")
    assert weft(*run, "analogy", A, B, C, "--scale", "-0.5").out == space.analogy(A, B, C, -0.5) + "\n"
    assert json.loads(weft(*run, "analogy", A, A, C, "--json").out)["text"] == space.reconstruct([C])[0]
    terms = [(1.0, A), (-0.5, B), (1.0, C)]
    found = json.loads(weft(*run, "arithmetic", A, "-", "0.5", B, "+", C, "--json").out)
    assert found == {"terms": [list(term) for term in terms], "text": space.arithmetic(terms)}
    for words in (["-0.5", A, "+", B], ["-", "0.5", A, "+", B], ["--seed", "1", "-0.5", A, "+", B], ["-0.5", A, "--", "+1", B]):
        assert weft(*run, "arithmetic", *words).out == space.arithmetic([(-0.5, A), (1.0, B)]) + "\n", words
    groups = ("--target", home / "good.txt", "--source", home / "bad.txt")
    good, bad = ([row.text for row in read_texts(home / f"{label}.txt")] for label in ("good", "bad"))
    assert weft(*run, "steer", *groups, "--scale", "3", given=stdin(TEXTS[:4])).out.split("\n")[:-1] == space.steer(
        TEXTS[:4], good, bad, 3
    )


def test_one_file_per_class_equals_a_table_with_labels(home, tmp_path):
    """In the same order: the noise of an example, and so its one-sample ELBO, depends on its row."""
    table = tmp_path / "sorted.tsv"
    examples = sorted(EXAMPLES, key=lambda example: example[1])
    table.write_text("".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *examples]))
    by_class = weft("evaluate", home / "conditional", f"good={home}/good.txt", f"bad={home}/bad.txt", "--json")
    as_table = weft("evaluate", home / "conditional", table, "--json")
    first, second = (json.loads(answer.out)["loss"] for answer in (by_class, as_table))
    assert first == pytest.approx(second, rel=1e-6)


def test_plot_command(home, space, tmp_path):
    out = tmp_path / "map.png"
    answer = weft("latent", home / "vae", "plot", home / "texts.tsv", "--out", out, "--max-texts", "20")
    assert answer.code == 0 and answer.out.startswith(f"wrote {out}: 20 texts, ") and "encoding 20 texts" in answer.err
    assert out.read_bytes()[:4] == b"\x89PNG"
    found = json.loads(weft("latent", home / "conditional", "plot", "valid", "--out", out, "--json").out)
    assert found["file"] == str(out) and 0 < sum(found["variance"]) <= 1 and found["texts"] > 3
    by_class = ["plot", f"good={home}/good.txt", f"bad={home}/bad.txt", "--out", out, "--json"]
    assert json.loads(weft("latent", home / "conditional", *by_class).out)["texts"] == len(EXAMPLES)


def test_transfer_and_conditional_generate_commands(home, conditional):
    answer = weft("transfer", home / "conditional", "--to", "good", given=stdin([*TEXTS, ""]))
    assert answer.code == 0 and answer.out.split("\n") == [*conditional.transfer([*TEXTS, ""], "good"), ""]
    as_json = weft("transfer", home / "conditional", "--to", "bad", "--json", home / "texts.txt").out.splitlines()
    assert json.loads(as_json[0]) == {"input": TEXTS[0], "label": "bad", "text": conditional.transfer(TEXTS[:1], "bad")[0]}
    samples = weft("latent", home / "conditional", "sample", "--label", "good", "--samples", "3", "--seed", "2")
    assert samples.out.split("\n")[:-1] == conditional.sample(3, "good", seed=2)
    best = weft("latent", home / "conditional", "sample", "--label", "good", "--beams", "3", "--json")
    rows = [json.loads(line) for line in best.out.splitlines()]
    assert len(rows) == 10 and {row["label"] for row in rows} == {"good"}


def test_generate_reconstructs_without_classes(home, space):
    assert weft("generate", home / "vae", given=stdin(TEXTS)).out.split("\n")[:-1] == space.reconstruct(TEXTS)


def test_evaluate_with_an_oracle_adds_generation_and_transfer_metrics(home):
    both = ("--oracle", f"good={home / 'good.txt'}", "--oracle", f"bad={home / 'bad.txt'}")
    answer = weft("latent", home / "conditional", "evaluate", "--split", "valid", *both, "--json")
    assert answer.code == 0, answer.err
    metric_values, expected = json.loads(answer.out), evaluate_run(home / "conditional", EXAMPLES, split="valid").metric_values()
    assert {name: metric_values[name] for name in expected} == expected and "loss" in metric_values
    assert any("of the real texts are in the training set of the oracle" in remark for remark in metric_values["remarks"]), (
        "warnings are part of the JSON output"
    )
    assert json.loads((home / "conditional" / "metrics-valid.json").read_text())["transfer_bleu_4"] == expected["transfer_bleu_4"]
    plain = weft("latent", home / "conditional", "evaluate", "--split", "valid", *both).out
    assert plain.count("of the real texts are in the training set of the oracle") == 1
    assert ["transfer_accuracy", f"{expected['transfer_accuracy']:.4f}"] in [line.split() for line in plain.splitlines()]
    assert "oracle_accuracy" not in weft("evaluate", home / "conditional", "--split", "valid").out
    number = str(expected["generation_texts"])
    assert number.isdigit() and ["generation_texts", number] in [line.split() for line in plain.splitlines()]


def test_evaluate_with_fluency_texts_adds_perplexity(home):
    words = ("latent", home / "conditional", "evaluate", "--split", "valid", "--oracle", home / "texts.tsv", "--json")
    files = ("--fluency", home / "good.txt", "--fluency", home / "texts.tsv")
    answer = weft(*words, *files)
    assert answer.code == 0, answer.err
    texts = [text for text, label in EXAMPLES if label == "good"] + TEXTS
    model = KneserNey([text.split() for text in texts], order=4, min_count=2)
    metric_values, found = (
        json.loads(answer.out),
        evaluate_run(home / "conditional", EXAMPLES, split="valid", language_model=model),
    )
    assert {name: metric_values[name] for name in found.metric_values()} == found.metric_values()
    assert metric_values["generation_word_perplexity"] == perplexity(model, [text for _, text in found.generated]).per_word
    real, remarks = found.generation.texts, metric_values["remarks"]
    assert f"warning: {real} of the real texts are in the training set of the language model; give it other texts" in remarks
    assert "generation_perplexity" not in json.loads(weft(*words).out)
    assert found.oracle_overlap == real and found.language_model_overlap == 0, "its training texts were not given"
    assert "have no confidence intervals" in " ".join(weft("latent", "RUN", "evaluate", "--help").out.split())


def test_predict_names_the_supported_commands(home):
    for name, can in (
        ("vae", "weft generate, weft embed, weft latent"),
        ("conditional", "weft embed, weft transfer, weft latent"),
    ):
        answer = weft("predict", home / name, given=b"a\n")
        assert answer.code == 2 and answer.err.endswith(f"has no classifier, tagger or other predictor; it supports {can}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["latent", "{vae}", "plot", "nothing"], "nothing: file not found; give a file, or a split: train, valid, test"),
        (["latent", "{vae}", "plot", "test"], "the data has no split 'test'; available: train, valid"),
        (["latent", "{vae}", "plot", "valid", "--out", "x.pdf"], "x.pdf: unknown format .pdf; use .png"),
        (["latent", "{vae}", "interpolate", "a", "b", "--out", "x.txt"], "x.txt: unknown format .txt; use .html"),
        (["latent", "{vae}", "interpolate", "a", "b", "--steps", "1"], "Input should be greater than or equal to 2"),
        (["latent", "{vae}", "arithmetic", "a", "b"], "no sign between 'a' and 'b'"),
        (["latent", "{vae}", "arithmetic", "a", "+", "b", "--lable", "x"], "unknown option --lable; did you mean '--label'?"),
        (["latent", "{vae}", "arithmetic", "--lable=x", "a"], "unknown option --lable=x; did you mean '--label'?"),
        (["latent", "{vae}", "arithmetic", "a", "-b"], "unknown option -b; put a space after a sign"),
        (
            ["latent", "{vae}", "analogy", "a", "b", "c", "--scale", "inf"],
            "scale must be between -1,000,000 and 1,000,000, not inf",
        ),
        (
            ["latent", "{vae}", "analogy", "a", "b", "c", "--scale", "1e39"],
            "between -1,000,000 and 1,000,000, not 1e+39",
        ),
        (["latent", "{vae}", "plot", "{home}/good.txt", "{home}/bad.txt"], "good.txt: texts without a label"),
        (
            ["latent", "{vae}", "plot", "good={home}/good.txt", "valid"],
            "valid is a split of the run's data and cannot be",
        ),
        (["latent", "{vae}", "sample", "--beams", "2", "--top-k", "3"], "--beams cannot be combined with sampling"),
        (["latent", "{vae}", "sample", "--label", "good"], "is not class-conditional"),
        (["latent", "{vae}", "steer", "--target", "gone.txt", "--source", "gone.txt"], "gone.txt: file not found"),
        (["latent", "gone", "sample"], "there is no folder gone"),
        (["latent", "{vae}"], "Missing command"),
        (["transfer", "{vae}", "--to", "good"], "does not support style transfer"),
        (["transfer", "{conditional}", "--to", "goood"], "has no class 'goood'; did you mean 'good'? (available: bad, good)"),
        (["latent", "{conditional}", "sample", "--label", "goood"], "did you mean 'good'?"),
        (["generate", "{conditional}"], "is class-conditional (bad, good); it supports weft embed, weft transfer, weft latent"),
        (
            ["latent", "{conditional}", "reconstruct"],
            "choose 'bad' or 'good' (on the command line: --label bad)",
        ),
        (["latent", "{vae}", "evaluate", "--split", "valid", "--oracle", "{home}/texts.tsv"], "is not class-conditional"),
        (["latent", "{conditional}", "evaluate", "--oracle", "gone.json"], "gone.json: file not found"),
        (
            ["evaluate", "{conditional}", "data.max_words=3"],
            "data.max_words=3 changes how data files are read, but no file is given",
        ),
        (
            ["evaluate", "{conditional}", "data.valid={home}/texts.tsv"],
            "the splits of a trained run cannot be changed",
        ),
        (["evaluate", "{conditional}", "good={home}/good.txt", "{home}/texts.tsv"], "has no class but other files have one"),
        (["evaluate", "{conditional}", "good={home}/good.txt"], "test has one class (good)"),
        (["evaluate", "{conditional}", "good={home}/good.txt", "fine={home}/bad.txt"], "fine"),
        (["latent", "{conditional}", "evaluate", "--split", "valid", "--oracle", "{home}/texts.txt"], "texts without a label"),
        (
            ["latent", "{conditional}", "evaluate", "--oracle", "{home}/texts.tsv", "--fluency", "gone.txt"],
            "gone.txt: file not found",
        ),
        (
            ["latent", "{conditional}", "evaluate", "--oracle", "{home}/texts.tsv", "--fluency", "{home}/blank.txt"],
            "blank.txt: no texts found",
        ),
    ],
)
def test_mistakes_are_reported(home, words, message):
    paths = {"vae": home / "vae", "conditional": home / "conditional", "home": home}
    answer = weft(*(word.format(**paths) for word in words), given=b"a\n")
    assert answer.code == 2
    assert message in " ".join(answer.err.replace("│", " ").split()), answer.err
