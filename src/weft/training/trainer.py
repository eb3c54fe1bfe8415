"""Training a run into its folder: stages one after another, checkpoints, log, evaluation, final files."""

from __future__ import annotations

import contextlib
import re
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.core.contracts import Corpus, Objective, Tokenizer
from weft.core.io import finite, read_json, write_json
from weft.data import Feed, load_codec, save_codec
from weft.evaluate import EvaluationResult
from weft.inference.trained_run import TrainedRun
from weft.inspect.classification import draw_classes, has_classes
from weft.learning import (
    Checkpoint,
    Checkpoints,
    Loop,
    Processes,
    Progress,
    average,
    joined,
    load_checkpoint,
    read_weights,
    take_weights,
    write_weights,
)
from weft.training.allocator import keep_freed
from weft.training.build import (
    StagePlan,
    build_network,
    check_evaluation,
    check_metrics,
    check_rows,
    choose_device,
    plans,
    same_tokenizers,
    with_data,
)
from weft.training.display import Display, show_ledger
from weft.training.recipes import read_run
from weft.training.resources import Meter, describe
from weft.training.run import Run
from weft.training.run_folder import FORMAT, FolderError, RunFolder, compare_recipes
from weft.training.tensorboard import TensorBoard

_MAY_CHANGE = re.compile(r"(stages\.\d+\.)?(learning\.(steps|log_every|sync(\..*)?)|evaluate(\..*)?)")
_STEPS = re.compile(r"(?:stages\.(\d+)\.)?learning\.steps")


def train(
    run: Run,
    path: Path,
    *,
    resume: bool = False,
    plugins: list[str] | None = None,
    display: Display | None = None,
    tensorboard: bool = False,
) -> TrainedRun:
    """Train a run into a folder. Returns the model with its final weights and the final evaluation."""
    keep_freed()
    with joined() as processes:
        return _train(run, path, resume, plugins or [], display or Display(), tensorboard, processes)


def _train(
    run: Run, path: Path, resume: bool, plugins: list[str], display: Display, tensorboard: bool, processes: Processes
) -> TrainedRun:
    folder = RunFolder(processes.share(str(path)))
    filled = run.dump(hashes=True)
    training = Training(run, folder, display if processes.first else Display(), processes)

    def begin() -> bool:
        going_on = resume and not folder.is_stub()  # a stub: killed while the folder was being made
        if going_on:
            folder.open()
            go_on(folder, run, filled)
        else:
            folder.create(filled, plugins)
        if tensorboard:
            training.board = TensorBoard(folder.path)
        return going_on

    try:
        return training.all_stages(processes.ask_first(begin))
    except OSError as error:
        raise FolderError(
            f"cannot go on in {folder.path}: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}. "
            f"What was saved before is untouched. When that is mended, go on with: weft train {folder.path} --resume"
        ) from error
    except (ValueError, MemoryError):
        if folder.made and not training.began:
            folder.take_back()
        raise
    finally:
        training.close()
        folder.close()


def go_on(folder: RunFolder, run: Run, filled: dict[str, Any]) -> None:
    """On resume only more steps, logging and evaluation may differ; what does is written into the folder's recipe."""
    differences = compare_recipes(read_run(folder.recipe).dump(hashes=True), filled)
    refused = []
    for path, (old, new) in differences.items():
        if not _MAY_CHANGE.fullmatch(path):
            refused.append(f"  {path}: was {old!r}, now {new!r}")
        elif steps := _STEPS.fullmatch(path):
            stages = plans(run)
            stage = stages[int(steps[1]) + 1 if steps[1] else 0]
            if new < old:
                refused.append(f"  {path}: was {old}, now {new}; it can only be raised")
            elif stage is not stages[-1] and folder.stage_model(stage.name).exists():
                refused.append(f"  {path}: was {old}, now {new}; the stage {stage.name} is done, and others were built on it")
    if refused:
        raise FolderError(
            f"{folder.path} was begun with other choices:\n"
            + "\n".join(refused)
            + "\nOn --resume, only steps (raised), logging, sync and "
            "evaluation may change. For anything else start a new run (without --resume)"
        )
    if differences:
        folder.write_recipe(filled)
        folder.write_log({"event": "changed", "choices": {path: new for path, (_, new) in differences.items()}})


class Training:
    """One run in the making; the loop's watcher."""

    def __init__(self, run: Run, folder: RunFolder, display: Display, processes: Processes | None = None):
        self.run, self.folder, self.display, self.processes = run, folder, display, processes or Processes()
        self.device = self.processes.place(choose_device(run.device))
        self.plans = plans(run)
        self.stop_asked = self.began = False
        self.corpora: dict[str, Corpus] = {}
        self.corpus: Corpus | None = None
        self.feeds: list[Feed] = []
        self.meter, self.used = Meter(), False
        self.spent: dict[str, Any] = {}
        self.board: TensorBoard | None = None

    # ---------------------------------------------------------------------------------------------------------- stages

    def all_stages(self, resume: bool) -> TrainedRun:
        with self.processes.in_turn():  # what the first has prepared, the others find
            self.open_data()
        with _asking(self):
            weights: dict[str, Tensor] = {}
            for plan in self.plans:
                weights = self.one_stage(plan, weights, resume)
        trained = self.together()
        judged = trained.result
        cpu = self.processes.sum({"cpu": self.meter.spent()})["cpu"]
        if self.processes.first:
            self.display.say(describe(self.use(cpu)))
        self.display.finished(self.folder.path, judged.metric_values, judged.remarks)
        return trained

    def one_stage(self, plan: StagePlan, before: dict[str, Tensor], resume: bool) -> dict[str, Tensor]:
        """Train one stage, or take its weights if it is done; returns its final weights."""
        last = plan is self.plans[-1]
        final = self.folder.model if last else self.folder.stage_model(plan.name)
        if self.processes.ask_first(lambda: resume and not last and final.exists()):
            self.spent[plan.name] = self.spent_before(plan)
            return self.processes.share_tensors(read_weights(final) if self.processes.first else None)
        corpus = self.corpus = self.corpus_of(plan)
        self.plan, self.learning, self.evaluation = plan, plan.learning(), plan.evaluate()
        check_evaluation(self.learning, self.evaluation, corpus.codec.info)
        if self.evaluation.every and self.evaluation.split not in corpus.splits:
            raise ValueError(f"evaluate.split is {self.evaluation.split!r}, but the data has: {', '.join(corpus.splits)}")
        self.network = build_network(plan, corpus.codec.info, self.run.seed, "cpu", tell=self.display.say)
        check_metrics(self.evaluation, self.network.model)
        if before:
            taken = take_weights(self.network, before, plan.start)
            self.display.say(
                f"stage {plan.name}: {len(taken)} of {len(self.network.tensors())} tensors taken from the stage before"
            )
        self.network.to(self.device)
        self.checkpoints = Checkpoints(self.folder.checkpoints(plan.name, len(self.plans) == 1), keep=self.learning.keep)
        if self.processes.first:
            self.checkpoints.clean()
        for objective in self.network.objectives.values():
            objective.setup(self.network.model, next(iter(corpus.splits.values())))
        loop = Loop(
            self.network,
            self.learning,
            self.make_feed,
            self,
            seed=self.run.seed,
            stage=plan.index,
            device=self.device,
            precision=self.run.precision,
            processes=self.processes,
        )
        self.loop = loop
        going_on = self.processes.ask_first(lambda: resume and self.can_go_on())
        self.display.begin(plan.name, self.learning.steps, len(self.plans) > 1)
        try:
            loop.run(going_on)
        finally:
            self.display.end()
            self.spent[plan.name] = {"tokens": loop.progress.tokens, "spent": asdict(loop.progress.spent)}
        weights = self.processes.share_tensors(self.final_weights())
        if self.processes.first:
            write_weights(final, weights)
        if self.network.is_sharded():
            self.network = build_network(plan, corpus.codec.info, self.run.seed, "cpu").to(self.device)
        self.network.load(weights)
        return weights

    def open_data(self) -> None:
        """The data of all stages, so that a mistake in the last is said before the first is trained. What was measured once
        (vocabularies, labels) is in the folder and stays."""
        before: StagePlan | None = None
        for plan in with_data(self.plans):
            place, data = plan.place(self.folder.path), plan.data()
            codec = load_codec(data, place) if (place / "fields.json").exists() else None
            known = self.known(before, plan) if codec is None and before is not None else {}
            with self.display.waiting("reading the data") as tell:
                corpus = self.corpora[plan.name] = data.open(codec, known=known, tell=tell)
            if codec is None:
                save_codec(corpus.codec, place)
                for line in show_ledger(corpus.ledger):
                    self.display.say(line)
            before = plan
        for plan in self.plans:
            check_rows(plan.evaluate(), self.corpus_of(plan).splits, last=plan is self.plans[-1])

    def corpus_of(self, plan: StagePlan) -> Corpus:
        """The data of a stage: its own, or that of the last before it."""
        return self.corpora[with_data(self.plans[: plan.index + 1])[-1].name]

    def known(self, before: StagePlan, plan: StagePlan) -> dict[str, Tokenizer]:
        """Tokenizers of the data before that this stage describes in the same words: its ids mean what they meant."""
        same = same_tokenizers(before, plan)
        if same:
            self.display.say(f"stage {plan.name}: the same tokenizer as before ({', '.join(same)})")
        return {space: self.corpora[before.name].codec.tokenizers[space] for space in same}

    def spent_before(self, plan: StagePlan) -> dict[str, Any]:
        """What went into a stage that is done, as its last checkpoint has it."""
        paths = sorted(self.folder.checkpoints(plan.name, False).glob("update-*[0-9]"))
        try:
            progress = Progress(**read_json(paths[-1] / "state.json")["progress"])
            return {"tokens": progress.tokens, "spent": asdict(progress.spent)}
        except (IndexError, OSError, ValueError, KeyError, TypeError):  # gone or damaged: it only helps to explain
            return {"tokens": 0, "spent": {}}

    def make_feed(self, split: str, objective: Objective, phase: str) -> Feed:
        assert self.corpus is not None
        if split not in self.corpus.splits:
            raise ValueError(
                f"phase {phase}: there is no split {split!r} in the data (there is: {', '.join(self.corpus.splits)})"
            )
        feed = Feed(self.corpus.splits[split], objective, key=(self.run.seed, self.plan.index, phase), budget=self.learning.batch)
        self.feeds.append(feed)
        return feed

    def final_weights(self) -> dict[str, Tensor]:
        """The last weights, their moving average, the mean of the last checkpoints, or the best."""
        if self.learning.average:
            return average([c.tensors["model.safetensors"] for c in self.last_checkpoints(self.learning.average)])
        if self.learning.final == "best" and (best := self.checkpoints.best()):
            return load_checkpoint(best).tensors["model.safetensors"]
        return {name: tensor.detach().cpu().clone() for name, tensor in self.loop.final().items()}

    def last_checkpoints(self, number: int) -> list[Checkpoint]:
        """The last planned checkpoints, as many as asked for or as a short run has. Raises FolderError if one is not whole."""
        paths = [p for p in sorted(self.checkpoints.folder.glob("update-*[0-9]")) if not self.is_extra(p)][-number:]
        every = self.learning.save_every or self.learning.steps
        planned = min(number, 1 - (-self.loop.progress.round // every))
        try:
            if len(paths) < planned:
                raise FolderError(f"{len(paths)} of {planned} are there")
            return [load_checkpoint(p) for p in paths]
        except ValueError as trouble:
            raise FolderError(
                f"the mean of the last {number} checkpoints cannot be made: {trouble}. "
                f"The last weights are whole in {paths[-1]}; for the mean, start a new run"
            ) from None

    def together(self) -> TrainedRun:
        """The first process evaluates and writes the last files, with what all have counted; the others wait."""
        for feed in self.feeds:
            seen = {"skipped": feed.skipped, "real": feed.padding.real, "total": feed.padding.total}
            counts = self.processes.sum(seen)
            feed.skipped, feed.padding.real, feed.padding.total = (int(counts[name]) for name in seen)
        trained = self.finish() if self.processes.first else self.trained(EvaluationResult({}))
        self.processes.share(None)
        return trained

    def trained(self, result: EvaluationResult) -> TrainedRun:
        """The run with its final weights, and the final evaluation, which only the first process computes."""
        assert self.corpus is not None
        model = self.network.model.eval()
        return TrainedRun(self.run, model, self.corpus.codec, self.network.objectives, folder=self.folder.path, result=result)

    def finish(self) -> TrainedRun:
        """Evaluate the final weights and write the last files."""
        assert self.corpus is not None
        objective = next(iter(self.network.objectives.values()))
        results: dict[str, EvaluationResult] = {}
        for split in ("valid", "test"):
            if split in self.corpus.splits:
                with self.display.waiting(f"evaluating on {split}"):
                    results[split] = self.evaluation.evaluate(
                        self.network.model, objective, self.corpus.splits[split], self.corpus.codec, self.device
                    )
        judged = results.get("test") or results.get("valid") or EvaluationResult({})
        split = "test" if "test" in results else "valid"
        valid = {"valid": results["valid"].metric_values} if split == "test" and "valid" in results else {}
        with self.display.waiting("confidence intervals"):
            about = judged.details(self.evaluation.metrics)
        about = {name: value for name, value in about.items() if value}
        write_json(self.folder.metrics, finite({"format": FORMAT, "split": split, **judged.metric_values, **valid, **about}))
        self.folder.write_predictions(judged.predictions, judged.references)
        padding = {f.name: f.padding.ratio for f in self.feeds if f.padding.total}
        skipped = {f.name: f.skipped for f in self.feeds}
        ledger = {"format": FORMAT, **self.corpus.ledger, "padding_share": padding, "nothing_to_learn": skipped}
        progress = self.loop.progress
        bad = {"skipped_updates": progress.skips, "skipped_rows": progress.skipped, "left_out": progress.left_out}
        write_json(self.folder.ledger, ledger | bad)
        self.draw_curve()
        trained = self.trained(judged)
        if has_classes(trained, judged):
            with self.display.waiting("probabilities of the classes"):
                trouble = draw_classes(trained, judged, self.folder.path)
            if trouble:
                self.display.say(trouble)
        return trained

    def draw_curve(self) -> None:
        from weft.inspect.curve import curve

        try:
            curve(_points(self.folder.read_log()), self.folder.curve, title=self.folder.path.name)
        except ValueError as missing:
            self.display.say(f"no curve.png: {missing}")

    # ---------------------------------------------------------------------------------------------- the loop's watcher

    def logged(self, row: dict[str, Any]) -> None:
        row = {"stage": self.plan.index, **row}
        self.write_log(row)
        self.meter.look()
        padding = self.feeds[-1].padding.ratio if self.feeds else 0.0
        self.display.update(row, padding)

    def write_log(self, row: dict[str, Any]) -> None:
        self.folder.write_log(row)
        if self.board is not None and "problem" not in row:
            self.board.add(row)

    def close(self) -> None:
        """However it ended: note what this session cost."""
        if self.board is not None:
            self.board.close()
        if self.began and self.processes.first and not self.used:
            with contextlib.suppress(OSError):  # a full disk has been told of already
                self.use(self.meter.spent() * self.processes.world)  # the others cannot be asked any more

    def use(self, cpu: float) -> dict[str, Any]:
        """Note what this session cost; what the run cost so far. ``cpu``: CPU seconds of all processes."""
        self.used = True
        return self.folder.add_usage(self.meter.read(cpu), self.spent)

    def due(self, progress: Progress, last: bool) -> bool:
        assert self.corpus is not None
        every = self.evaluation.every
        return bool(every) and progress.round % every == 0 and self.evaluation.split in self.corpus.splits

    def evaluate(self, progress: Progress, last: bool) -> float | None:
        assert self.corpus is not None
        judged = self.evaluation.evaluate(
            self.network.model,
            next(iter(self.network.objectives.values())),
            self.corpus.splits[self.evaluation.split],
            self.corpus.codec,
            self.device,
            self.evaluation.max_examples,
            last=False,
        )
        remarks = {"remarks": judged.remarks} if judged.remarks else {}
        self.write_log(
            {"event": "valid", "stage": self.plan.index, "round": progress.round, "valid": judged.metric_values, **remarks}
        )
        self.display.evaluated(progress.round, judged.metric_values, judged.remarks)
        return self.evaluation.score(judged)

    def save(self, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any], progress: Progress) -> None:
        about = {"stage": self.plan.index, "round": progress.round}
        self.began = True
        self.folder.write_log({"event": "saving", **about})
        extra = [p for p in self.checkpoints.folder.glob("update-*[0-9]") if self.is_extra(p)]
        self.checkpoints.keep = self.learning.keep + len(extra) + (not self.is_due(progress))
        self.checkpoints.save(progress.round, tensors, documents, best=progress.best_round == progress.round)
        for path in extra:
            if (update := int(path.name.removeprefix("update-"))) < progress.round:
                self.checkpoints.remove(update)
        self.folder.write_log({"event": "saved", **about})

    def is_due(self, progress: Progress) -> bool:
        """Whether a run that nobody stops would be saved there."""
        every, there = self.learning.save_every, progress.round
        planned = there in (0, self.learning.steps, progress.best_round) or progress.stopped
        return planned or bool(every and there % every == 0)

    def is_extra(self, path: Path) -> bool:
        """Whether a checkpoint is there only because the run was stopped: it must not push out others, nor enter a mean."""
        try:
            return not self.is_due(Progress(**read_json(path / "state.json")["progress"]))
        except (OSError, ValueError, KeyError, TypeError):  # damaged: whoever reads it says so
            return False

    def can_go_on(self) -> bool:
        """Whether there is a checkpoint to go on from. If all there are have been damaged, that is not a beginning."""
        latest = self.checkpoints.latest()
        if latest.path is None and latest.damaged:
            found = "; ".join(f"{path.name}: {', '.join(reasons)}" for path, reasons in latest.damaged.items())
            raise FolderError(f"no whole checkpoint is left in {self.checkpoints.folder} ({found}): start a new run")
        return latest.path is not None

    def restore(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        latest = self.checkpoints.latest()
        for path, reasons in latest.damaged.items():
            self.display.say(f"warning: the checkpoint {path} is damaged ({'; '.join(reasons)}); an earlier one is used")
        if latest.path is None:
            raise FolderError(f"no whole checkpoint is left in {self.checkpoints.folder}: start a new run")
        checkpoint = load_checkpoint(latest.path)
        if checkpoint.documents["state.json"]["progress"]["best_round"] == checkpoint.update:
            self.checkpoints.mark_best(checkpoint.update)  # it may have been killed just before it could
        self.folder.forget_after(self.plan.index, checkpoint.update)
        self.folder.write_log({"event": "resumed", "stage": self.plan.index, "round": checkpoint.update})
        self.display.say(f"going on from {latest.path}")
        return checkpoint.tensors, checkpoint.documents

    def should_stop(self) -> bool:
        return self.stop_asked


def _points(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log's rows on one axis: rounds counted through all stages, and one loss for a round of several phases."""
    rows: list[dict[str, Any]] = []
    before: dict[int, int] = {0: 0}
    last = 0
    for row in log:
        if row.get("event") not in ("update", "valid"):
            continue
        first = before.setdefault(row.get("stage", 0), last)
        last = max(last, first + row["round"])
        losses = [v for k, v in row.items() if k == "loss" or k.endswith("/loss")]
        rows.append({"update": first + row["round"], **({"loss": sum(losses)} if losses else {}), "valid": row.get("valid")})
    return rows


class _asking:
    """While training, the first Ctrl-C (or SIGTERM) asks for a stop after this round; the second ends at once."""

    def __init__(self, training: Training):
        self.training = training
        self.before: dict[int, Any] = {}

    def __enter__(self) -> None:
        def ask(number: int, frame: Any) -> None:
            # torchrun passes on what it gets, and ends the others in its own way when one has stopped: that is no second wish
            if self.training.stop_asked and self.training.processes.world == 1:
                raise KeyboardInterrupt
            self.training.stop_asked = True
            with contextlib.suppress(RuntimeError):  # it came in the middle of another line
                self.training.display.say("stopping after this round; a checkpoint will be saved (again: stop at once)")

        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self.before[number] = signal.signal(number, ask)
            except ValueError:  # not in the main thread: whoever runs us handles signals
                return

    def __exit__(self, *exc: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
