"""Training runs into their folders: exact resume, final weights, stages, files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from weft.blocks import LSTM, AttentionLSTM
from weft.core.registry import block, unregister
from weft.data import Dates
from weft.evaluate import Evaluation
from weft.inference.load import load
from weft.learning import EMA, SGD, ConstantSchedule, Gradient, Phase, digest, load_checkpoint, read_weights
from weft.learning.progress import Interrupted
from weft.models import Seq2Seq
from weft.objectives import NextToken
from weft.training.callbacks import StageCallbacks
from weft.training.recipes import read_run
from weft.training.run import Run
from weft.training.stages import Stage
from weft.training.trainer import train


def small_run(**choices: Any) -> Run:
    learning = {"steps": 6, "batch_tokens": 200, "save_every": 2, "log_every": 1, "keep": 20, **choices.pop("learning", {})}
    structure = {"dim": 8, "encoder": partial(LSTM, bidirectional=True, layers=2, dropout=0.2), "decoder": AttentionLSTM}
    return Run(
        data=partial(Dates, train=100, valid=20, test=20),
        structure=partial(Seq2Seq, **structure),
        objective=NextToken,
        learning=partial(Gradient, **learning),
        **choices,
    )


def test_lr_factors_are_selected_by_the_first_matching_glob(tmp_path):
    """With plain gradient steps, how far a parameter goes is its rate times its gradient."""
    plain = {"steps": 1, "optimizer": partial(SGD, lr=0.5), "clip": 0.0}
    moved: dict[str, dict[str, torch.Tensor]] = {}
    for name, rates in (("one", None), ("other", {"encoder.*": 0.25, "embedder.*": 0.0, "*er.*": 3.0})):
        run = small_run(learning={**plain, "lr_factors": rates}).checked()
        run.train(tmp_path / name, quiet=True, keep=True)
        before = load_file(tmp_path / name / "checkpoints" / "step-00000000" / "model.safetensors")
        after = load_file(tmp_path / name / "model.safetensors")
        moved[name] = {n: after[n] - before[n] for n in after}
    factors = {"encoder": 0.25, "embedder": 0.0, "decoder": 3.0}
    seen = set()
    for name, step in moved["one"].items():
        factor = factors.get(name.split(".")[0], 1.0)
        torch.testing.assert_close(moved["other"][name], factor * step, rtol=1e-4, atol=1e-7)
        seen |= {factor} if step.any() else set()
    assert seen == {0.25, 0.0, 3.0, 1.0}


def test_lr_factors_of_learning_apply_to_every_phase(tmp_path):
    phases = [partial(Phase, train=["decoder.*"]), partial(Phase, train=["encoder.*"])]
    small_run(learning={"lr_factors": {"encoder.*": 0.1}, "phases": phases}).train(tmp_path / "run", quiet=True, keep=True)
    with pytest.raises(ValueError, match="lr_factors freezes all parameters of the phase"):
        small_run(learning={"lr_factors": {"encoder.*": 0.0}, "phases": phases}).train(tmp_path / "none", quiet=True, keep=True)


def test_lr_factors_without_a_match_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"lr_factors: 'encodr\.\*' matches no trained parameter"):
        small_run(learning={"lr_factors": {"encodr.*": 0.1}}).train(tmp_path / "run", quiet=True, keep=True)


def final_digest(folder: Path) -> str:
    return digest(sorted((folder / "checkpoints").glob("**/step-*"))[-1])


VARIANTS = {
    "plain": {},
    "accumulate": {"learning": {"accumulate": 3}},
    "rates": {"learning": {"lr_factors": {"encoder.*": 0.1, "embedder.*": 0.0}}},
    "ema": {"learning": {"ema": partial(EMA, decay=0.5)}},
    "bf16": {"precision": "bf16"},
    "phases": {
        "learning": {
            "phases": [
                partial(Phase, train=["encoder.*", "embedder.*"]),
                partial(Phase, train=["decoder.*"], repeat=2, optimizer=partial(SGD, lr=0.1, momentum=0.9), every=2),
            ]
        }
    },
    "stages": {"stages": [partial(Stage, name="polish", learning=partial(Gradient, steps=4, batch_tokens=300, save_every=1))]},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_stopped_after_any_save_and_resumed_ends_bit_identical(name, tmp_path, monkeypatch):
    small_run(**VARIANTS[name]).train(tmp_path / "whole", quiet=True, keep=True)
    expected = final_digest(tmp_path / "whole")
    weights = digest(tmp_path / "whole" / "model.safetensors")
    saves = sum(json.loads(line)["event"] == "saved" for line in (tmp_path / "whole" / "log.jsonl").open())
    assert saves >= 4
    for stop in range(1, saves, 2):
        folder = tmp_path / f"stop-{stop}"
        real, count = StageCallbacks.save, [0]

        def save(self: StageCallbacks, *args: Any, real: Any = real, count: list[int] = count, stop: int = stop) -> None:
            real(self, *args)
            count[0] += 1
            if count[0] == stop:
                raise KeyboardInterrupt

        monkeypatch.setattr(StageCallbacks, "save", save)
        with pytest.raises(KeyboardInterrupt):
            small_run(**VARIANTS[name]).train(folder, quiet=True, keep=True)
        monkeypatch.setattr(StageCallbacks, "save", real)
        small_run(**VARIANTS[name]).train(folder, resume=True, quiet=True, keep=True)
        assert final_digest(folder) == expected
        assert digest(folder / "model.safetensors") == weights
        steps = [(r["stage"], r["step"]) for r in map(json.loads, (folder / "log.jsonl").open()) if r["event"] == "train"]
        assert steps == sorted(set(steps)), "the log has every step once"


def test_equal_seeds_give_equal_bits_and_another_seed_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        small_run(seed=seed).train(tmp_path / name, quiet=True, keep=True)
    a, b, c = (digest(tmp_path / n / "model.safetensors") for n in "abc")
    assert a == b != c


def test_the_random_numbers_of_the_caller_do_not_depend_on_weft(tmp_path):
    def sample() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    samples = list[tuple[float, float, float]]()
    for trains in (False, True):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        if trains:
            small_run().train(tmp_path / "run", quiet=True).evaluate()
            load(tmp_path / "run").predict(["1 May 2000"])
        samples.append(sample())
    assert samples[0] == samples[1]


def test_evaluation_does_not_change_training(tmp_path):
    small_run().train(tmp_path / "without", quiet=True, keep=True)
    small_run(evaluate=partial(Evaluation, every=1)).train(tmp_path / "with", quiet=True, keep=True)
    assert digest(tmp_path / "without" / "model.safetensors") == digest(tmp_path / "with" / "model.safetensors")


def test_a_requested_stop_saves_a_checkpoint_that_can_be_resumed(tmp_path, monkeypatch):
    small_run(learning={"save_every": 0}).train(tmp_path / "whole", quiet=True, keep=True)
    monkeypatch.setattr(StageCallbacks, "should_stop", lambda self: self.loop.progress.step == 3)
    with pytest.raises(Interrupted):
        small_run(learning={"save_every": 0}).train(tmp_path / "stopped", quiet=True, keep=True)
    monkeypatch.undo()
    small_run(learning={"save_every": 0}).train(tmp_path / "stopped", resume=True, quiet=True, keep=True)
    assert final_digest(tmp_path / "stopped") == final_digest(tmp_path / "whole")


def test_steps_can_be_raised_on_resume(tmp_path):
    small_run(learning={"steps": 8, "schedule": ConstantSchedule}).train(tmp_path / "whole", quiet=True, keep=True)
    small_run(learning={"steps": 5, "schedule": ConstantSchedule}).train(tmp_path / "more", quiet=True, keep=True)
    small_run(learning={"steps": 8, "schedule": ConstantSchedule}).train(tmp_path / "more", resume=True, quiet=True, keep=True)
    assert final_digest(tmp_path / "more") == final_digest(tmp_path / "whole")


def test_other_changes_are_refused_on_resume_with_the_difference(tmp_path):
    small_run().train(tmp_path / "run", quiet=True, keep=True)
    with pytest.raises(ValueError, match=r"seed: was 1, now 2"):
        small_run(seed=2).train(tmp_path / "run", resume=True, quiet=True, keep=True)
    with pytest.raises(ValueError, match=r"learning\.steps: was 6, now 3; it can only be raised"):
        small_run(learning={"steps": 3}).train(tmp_path / "run", resume=True, quiet=True, keep=True)
    with pytest.raises(ValueError, match="already contains a run"):
        small_run().train(tmp_path / "run", quiet=True, keep=True)


def test_a_damaged_latest_checkpoint_is_reported_and_the_previous_one_is_used(tmp_path, capsys):
    small_run().train(tmp_path / "whole", quiet=True, keep=True)
    folder = tmp_path / "hurt"
    small_run().train(folder, quiet=True, keep=True)
    newest = sorted((folder / "checkpoints").glob("step-*"))[-1]
    file = newest / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    (folder / "model.safetensors").unlink()
    small_run().train(folder, resume=True)
    assert f"{newest} is damaged" in capsys.readouterr().err
    assert digest(folder / "model.safetensors") == digest(tmp_path / "whole" / "model.safetensors")


def test_the_final_weights_can_be_the_mean_of_the_last_checkpoints(tmp_path):
    small_run(learning={"average": 3}).train(tmp_path / "run", quiet=True, keep=True)
    paths = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-3:]
    states = [load_checkpoint(p).tensors["model.safetensors"] for p in paths]
    final = read_weights(tmp_path / "run" / "model.safetensors")
    for name, tensor in final.items():
        torch.testing.assert_close(tensor, torch.stack([s[name] for s in states]).mean(0))


def test_patience_stops_early_and_final_best_keeps_the_best_weights(tmp_path, monkeypatch):
    metric_values = iter([1.0, 0.5, 0.7, 0.8, 0.9, 0.9, 0.9])

    def judge(self: Any, *args: Any, **keywords: Any) -> Any:
        from weft.evaluate import EvaluationResult

        return EvaluationResult({"loss": next(metric_values, 0.9)}, higher_is_better={"loss": False})

    monkeypatch.setattr(Evaluation, "evaluate", judge)
    run = small_run(learning={"steps": 40, "patience": 2, "final": "best", "keep": 1}, evaluate=partial(Evaluation, every=1))
    run.train(tmp_path / "run", quiet=True, keep=True)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").open()]
    assert max(r["step"] for r in log if r["event"] == "train") == 4
    stopped = {"event": "stopped", "stage": 0, "step": 4, "monitor": "loss", "patience": 2, "best": 0.5, "best_step": 2}
    assert [r for r in log if r["event"] == "stopped"] == [stopped]
    train(run, tmp_path / "run", resume=True, keep=True)
    assert (tmp_path / "run" / "log.jsonl").read_text().count('"stopped"') == 1
    best = tmp_path / "run" / "checkpoints" / "step-00000002"
    assert best.is_dir()
    final = read_weights(tmp_path / "run" / "model.safetensors")
    kept = load_checkpoint(best).tensors["model.safetensors"]
    assert all(torch.equal(final[n], kept[n]) for n in final)


def test_a_stage_loads_weights_by_globs(tmp_path):
    polish = partial(Gradient, steps=1, batch_tokens=200, optimizer=partial(SGD, lr=1e-9))
    run = small_run(stages=[partial(Stage, name="polish", learning=polish, start={"encoder.*": "encoder.*"})])
    run.train(tmp_path / "run", quiet=True, keep=True)
    before = read_weights(tmp_path / "run" / "model-main.safetensors")
    after = read_weights(tmp_path / "run" / "model.safetensors")
    near = {n: torch.allclose(before[n], after[n], atol=1e-6) for n in before}
    assert all(v for n, v in near.items() if n.startswith("encoder."))
    assert not any(v for n, v in near.items() if n.startswith("decoder.") and n.endswith("weight"))
    assert load(tmp_path / "run").generate(["3 March 1999"])


def test_every_file_of_a_run_is_written_with_its_format_version(tmp_path):
    small_run(evaluate=partial(Evaluation, every=3)).train(tmp_path / "run", quiet=True, keep=True)
    for name, version in {"metrics.json": 1, "ledger.json": 1, "environment.json": 1, "fields.json": 3}.items():
        assert json.loads((tmp_path / "run" / name).read_text())["format"] == version, name
    assert json.loads((tmp_path / "run" / "log.jsonl").open().readline())["format"] == 1
    assert "format: 1" in (tmp_path / "run" / "recipe.yaml").read_text()
    assert json.loads((next((tmp_path / "run" / "checkpoints").iterdir()) / "manifest.json").read_text())["format"] == 1
    assert (tmp_path / "run" / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_repeated_from_its_own_recipe_is_bit_identical(tmp_path):
    small_run(precision="bf16").train(tmp_path / "first", quiet=True, keep=True)
    train(read_run(tmp_path / "first" / "recipe.yaml"), tmp_path / "second", keep=True)
    assert final_digest(tmp_path / "first") == final_digest(tmp_path / "second")
    assert (tmp_path / "first" / "metrics.json").read_text() == (tmp_path / "second" / "metrics.json").read_text()


def test_an_objective_that_is_not_in_the_catalog_cannot_be_trained(tmp_path):
    class Mine(NextToken):
        pass

    run = small_run()
    run.objective = Mine
    with pytest.raises(ValueError, match=r"Mine.*not in the catalog"):
        run.train(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def picky() -> Iterator[type[NextToken]]:
    @block("picky")
    class Picky(NextToken):
        """Skips sources of an even length."""

        def prepare(self, example: Any, rng: np.random.Generator, pool: Any) -> Any:
            return super().prepare(example, rng, pool) if len(example["source"]) % 2 else None

    yield Picky
    unregister(Picky)


def test_examples_skipped_by_prepare_are_counted(picky, tmp_path):
    small_run().train(tmp_path / "all", quiet=True, keep=True)
    assert not any(json.loads((tmp_path / "all" / "ledger.json").read_text())["nothing_to_learn"].values())
    run = small_run()
    run.objective = picky
    run.train(tmp_path / "run", quiet=True, keep=True)
    assert json.loads((tmp_path / "run" / "ledger.json").read_text())["nothing_to_learn"]["picky"] > 0


def train_in_sessions(run: Run, folder: Path, stops: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Train, stopped after each stage and step of ``stops``; half of the stops are kills, after a further step."""
    for number, stop in enumerate(stops):
        with monkeypatch.context() as patch:
            real = StageCallbacks.on_log

            def dies(self: StageCallbacks, row: dict[str, Any], real: Any = real, stop: tuple[int, int] = stop) -> None:
                real(self, row)
                if (self.stage, row["step"]) == (stop[0], stop[1] + 1):
                    raise KeyboardInterrupt

            def stops_here(self: StageCallbacks, stop: tuple[int, int] = stop) -> bool:
                return (self.stage, self.loop.progress.step) == stop

            patch.setattr(StageCallbacks, *(("on_log", dies) if number % 2 else ("should_stop", stops_here)))
            with pytest.raises((Interrupted, KeyboardInterrupt)):
                run.train(folder, resume=number > 0, quiet=True, keep=True)
    run.train(folder, resume=True, quiet=True, keep=True)


def test_the_ledger_of_a_run_of_several_sessions_is_that_of_one_session(picky, tmp_path, monkeypatch):
    stages = [partial(Stage, name="polish", learning=partial(Gradient, steps=4, batch_tokens=300, save_every=3, log_every=1))]
    run = small_run(stages=stages)
    run.objective = picky
    run.train(tmp_path / "whole", quiet=True, keep=True)
    train_in_sessions(run, tmp_path / "parts", [(0, 3), (0, 4), (1, 1), (1, 2)], monkeypatch)
    whole, parts = (json.loads((tmp_path / name / "ledger.json").read_text()) for name in ("whole", "parts"))
    assert whole["nothing_to_learn"]["picky"] > 0 and 0 < whole["padding_share"]["picky"] < 1
    assert parts == whole


def test_a_model_that_samples_in_its_forward_pass_is_evaluated_alike_after_a_resume(tmp_path, monkeypatch):
    @block("noisy")
    class Noisy(NextToken):
        """Adds noise of all global generators to the loss of an evaluation."""

        def forward(self, model: Any, batch: Any, clock: Any) -> Any:
            noise = 0 if self.training else float(torch.rand(())) + np.random.rand() + random.random()
            terms = super().forward(model, batch, clock)
            return type(terms)({name: replace(term, total=term.total * (1 + noise)) for name, term in terms.items()})

    try:
        run = small_run(evaluate=partial(Evaluation, every=2))
        run.objective = Noisy
        run.train(tmp_path / "whole", quiet=True, keep=True)
        train_in_sessions(run, tmp_path / "parts", [(0, 3), (0, 4)], monkeypatch)
        evaluated = run.checked().train(tmp_path / "parts", resume=True, quiet=True, keep=True).evaluate("test")
    finally:
        unregister(Noisy)
    logs = {
        name: [row for row in map(json.loads, (tmp_path / name / "log.jsonl").open()) if row["event"] == "valid"]
        for name in ("whole", "parts")
    }
    assert logs["whole"] == logs["parts"]
    assert (tmp_path / "whole" / "metrics.json").read_text() == (tmp_path / "parts" / "metrics.json").read_text()
    assert evaluated.metric_values["loss"] == json.loads((tmp_path / "whole" / "metrics.json").read_text())["loss"]


def test_evaluation_leaves_the_global_generators_as_they_were(tmp_path):
    trained = small_run(learning={"steps": 1}).train(tmp_path / "run", quiet=True, keep=True)

    def state() -> list[Any]:
        return [torch.get_rng_state().tolist(), np.random.get_state(legacy=False)["state"]["key"].tolist(), random.getstate()]

    before = state()
    trained.evaluate("valid")
    assert state() == before
