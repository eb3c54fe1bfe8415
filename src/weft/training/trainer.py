"""Train a run into its folder: stages one after another, then the final evaluation and files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from weft.core import files
from weft.core.contracts import Corpus, Objective, Tokenizer
from weft.core.fields import Info
from weft.core.io import read_json
from weft.core.seeding import restored_generators
from weft.data import Feed
from weft.data.mixing import part_splits
from weft.evaluate import Evaluation, EvaluationResult
from weft.evaluate.parts import EvaluationPart, evaluate_parts
from weft.inference.trained_run import TrainedRun
from weft.learning import (
    Checkpoints,
    Processes,
    Progress,
    TrainingLoop,
    join_processes,
    read_weights,
    transfer_weights,
    write_weights,
)
from weft.learning.network import Network
from weft.learning.phase import Phase
from weft.training import artifacts
from weft.training.allocator import keep_freed_memory
from weft.training.build import (
    StagePlan,
    build_network,
    check_early_stopping,
    check_evaluations,
    check_metrics,
    check_split_sizes,
    choose_device,
    final_key,
    plans,
    plans_with_data,
    shared_tokenizers,
)
from weft.training.callbacks import RunLog, StageCallbacks, UserCallbacks
from weft.training.constant_prediction import constant_remarks
from weft.training.display import Display, show_ledger
from weft.training.interrupt import StopRequest
from weft.training.resources import ResourceMeter, describe
from weft.training.resume import check_codec, make_record, recorded_threads, update_recipe
from weft.training.run import Run
from weft.training.run_folder import FolderError, RunFolder
from weft.training.saving import CheckpointPolicy
from weft.training.sources import (
    has_codecs,
    join_ledgers,
    load_codecs,
    main_source,
    open_corpora,
    pairs,
    parts,
    save_codecs,
    source_of,
)
from weft.training.threads import share_processors, threads_of_run
from weft.training.tracking import TrackerName, open_tracker


def train(
    run: Run,
    path: Path,
    *,
    resume: bool = False,
    plugins: list[str] | None = None,
    display: Display | None = None,
    track: TrackerName | None = None,
    keep: bool = False,
    user: UserCallbacks = UserCallbacks(),
) -> TrainedRun:
    """Train a run into a folder. Returns the model with its final weights and the final evaluation.

    Args:
        run: Specification of the run.
        path: Folder to write.
        resume: Whether to continue from the last checkpoint in the folder.
        plugins: Names of the imported plug-ins, for environment.json.
        display: Progress display; None = nothing is shown.
        track: Experiment tracker that receives the log too.
        keep: Whether to keep the checkpoints when the run is finished.
        user: Functions that are called during training.
    """
    keep_freed_memory()
    share_processors(display.message if display is not None else None)
    with join_processes() as processes, restored_generators():
        trainer = Trainer(run, RunFolder(processes.broadcast(str(path))), display, processes, user)
        with _folder_errors(trainer):
            resumes = processes.on_main(lambda: trainer.open_folder(resume, plugins or [], track))
            return trainer.train(resumes, keep)


@contextlib.contextmanager
def _folder_errors(trainer: Trainer) -> Iterator[None]:
    """Report a full disk with the way to resume, and remove the folder of a run that never started."""
    folder = trainer.folder
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise FolderError(
            f"cannot write to {folder.path}: {error.strerror or error}{where}. The last checkpoint is intact. "
            f"Fix the cause, then resume: weft train {folder.path} --resume"
        ) from error
    except (ValueError, MemoryError):
        if folder.created and not trainer.started:
            folder.remove_created()
        raise
    finally:
        trainer.close()
        folder.close()


MIN_EXAMPLES = 4
"""Fewer examples in an update cause a warning."""


class Trainer:
    """Runs the stages of a run, one after another.

    Args:
        run: Specification of the run.
        folder: Folder to write.
        display: Progress display; only the first process has one.
        processes: Processes that train together.
        user: Functions that are called during training.
    """

    corpora: dict[str, Corpus]
    """Data of the current stage by the name of the source."""
    network: Network
    """Model and objectives of the current stage."""
    learning: Any
    evaluation: Evaluation
    parts: dict[str, EvaluationPart]
    """What is evaluated, by name."""
    loop: TrainingLoop
    filled: dict[str, Any] | None = None
    """The full recipe with hashes, in the first process."""

    def __init__(
        self,
        run: Run,
        folder: RunFolder,
        display: Display | None = None,
        processes: Processes | None = None,
        user: UserCallbacks = UserCallbacks(),
    ):
        self.user = user
        self.run, self.folder, self.processes = run, folder, processes or Processes()
        self.display = display if display is not None and self.processes.is_main else Display()
        self.device = self.processes.select_device(choose_device(run.device))
        self.plans = plans(run)
        self.stop = StopRequest(self.display, several=self.processes.world > 1)
        self.log, self.meter = RunLog(folder), ResourceMeter()
        self.corpora_of: dict[str, dict[str, Corpus]] = {}
        self.feeds: list[Feed] = []
        self.stages: list[StageCallbacks] = []
        self.progress: dict[str, Progress] = {}
        """Progress of the stages so far, by name."""
        self.usage_written = False
        self.record: dict[str, Any] = {}
        """What is trained, saved with every checkpoint. In the first process."""
        self.remarks: list[str] = []
        """What the user must know about the final weights."""

    @property
    def started(self) -> bool:
        """Whether a checkpoint was written."""
        return any(callbacks.saved for callbacks in self.stages)

    def open_folder(self, resume: bool, plugins: list[str], track: TrackerName | None) -> bool:
        """Create the folder, or open it to resume. Returns whether the run resumes."""
        filled = self.run.dump(hashes=True)
        resumes = resume and not self.folder.is_incomplete()  # a stub: killed while the folder was created
        if resumes:
            self.folder.open()
            update_recipe(self.folder, self.run, filled)
            check_codec(self.folder, self.run)
            if not self.folder.is_finished():
                files.remove(self.folder.finished)  # of a process that was killed before it removed the checkpoints
        else:
            self.folder.create(filled, plugins)
        self.filled = filled
        if track is not None:
            self.log.tracker = open_tracker(track, self.folder.path, filled)
        return resumes

    def train(self, resume: bool, keep: bool = False) -> TrainedRun:
        """Train all stages, evaluate the final weights, write the final files and remove the checkpoints, unless ``keep``."""
        with self.processes.main_first():  # the first process prepares the data, the others load it
            self.open_data()
        world = self.processes.world
        recorded = self.processes.on_main(lambda: recorded_threads(self.folder, self.run, world) if resume else None)
        with threads_of_run(recorded, self.display.message):
            if self.filled is not None:
                self.record = make_record(self.folder, self.run, self.filled, world)
            with self.stop.on_signals():
                weights: dict[str, Tensor] = {}
                for plan in self.plans:
                    weights = self.train_stage(plan, weights, resume)
            trained = self.finish() if self.processes.is_main else self.trained(EvaluationResult({}))
        self.processes.broadcast(None)  # the others wait for the final files
        cpu = self.processes.sum({"cpu": self.meter.cpu_seconds()})["cpu"]
        if self.processes.is_main:
            self.display.message(describe(self.write_usage(cpu)))
            if not keep and not self.folder.is_finished():
                size = self.folder.remove_checkpoints({name: asdict(p) for name, p in self.progress.items()}, self.record)
                self.display.message(
                    f"removed the checkpoints ({size / 1e6:,.1f} MB); --keep keeps them, to train for more steps"
                )
        self.display.show_result(self.folder.path, trained.result.metric_values, trained.result.remarks)
        return trained

    # ------------------------------------------------------------------------------------------------------------- data

    def open_data(self) -> None:
        """Open the data of all stages, so that an error in the last is reported before the first is trained. Vocabularies and
        labels of a resumed run are loaded from the folder."""
        before: StagePlan | None = None
        for plan in plans_with_data(self.plans):
            path = plan.codec_folder(self.folder.path)
            codecs = load_codecs(plan, path) if has_codecs(plan, path) else None
            tokenizers = self.known_tokenizers(before, plan) if codecs is None and before is not None else {}
            with self.display.waiting("reading the data") as progress:
                corpora = self.corpora_of[plan.name] = open_corpora(plan, codecs, tokenizers, progress)
            if codecs is None:
                save_codecs({name: corpus.codec for name, corpus in corpora.items()}, path)
                for line in show_ledger(join_ledgers(corpora)):
                    self.display.message(line)
            before = plan
        if self.filled is not None:
            check_codec(self.folder, self.run)  # also those that were missing
        for plan in self.plans:
            for name, evaluation in plan.evaluations().items():
                part = parts(plan)[name]
                splits = part_splits(self.data_of(plan)[part.source], part.member)
                check_split_sizes(evaluation, splits, last=plan is self.plans[-1])

    def data_of(self, plan: StagePlan) -> dict[str, Corpus]:
        """Return the data of a stage: its own, or that of the last stage before it that has data."""
        return self.corpora_of[plans_with_data(self.plans[: plan.index + 1])[-1].name]

    def known_tokenizers(self, before: StagePlan, plan: StagePlan) -> dict[str, Tokenizer]:
        """Return the tokenizers of the previous data that this stage configures identically: their ids keep their meaning."""
        same = shared_tokenizers(before, plan)
        if same:
            self.display.message(f"stage {plan.name}: keeps the tokenizer of the previous stage ({', '.join(same)})")
        known = {s: t for corpus in self.corpora_of[before.name].values() for s, t in corpus.codec.tokenizers.items()}
        return {space: known[space] for space in same}

    # ----------------------------------------------------------------------------------------------------------- stages

    def train_stage(self, plan: StagePlan, before: dict[str, Tensor], resume: bool) -> dict[str, Tensor]:
        """Train one stage, or load its weights if it is finished. Returns its final weights."""
        last = plan is self.plans[-1]
        final = self.folder.model if last else self.folder.stage_model(plan.name)
        if self.processes.on_main(lambda: resume and final.exists() and (not last or self.folder.is_finished())):
            self.add_progress_of_finished(plan)
            weights = self.processes.broadcast_tensors(read_weights(final) if self.processes.is_main else None)
            if last:
                self.display.message("the run is finished: its final weights are evaluated again")
                self.build_stage(plan, {})
                self.network.load(weights)
            return weights
        self.build_stage(plan, before)
        policy = self.build_loop(plan)
        if self.processes.is_main:
            self.warn_of_small_batches(plan)
        resumes = self.processes.on_main(lambda: resume and policy.can_resume())
        self.display.start_stage(plan.name, self.learning.steps, len(self.plans) > 1)
        try:
            self.loop.run(resumes)
        finally:
            self.display.end_stage()
            self.progress[plan.name] = self.loop.progress
        if self.processes.is_main and self.loop.progress.stopped:
            self.stages[-1].report_early_stop(self.loop.progress, self.learning.patience)
        weights: dict[str, Tensor] = {}

        def choose() -> bool:
            weights.update(policy.chosen_weights(self.loop.progress) or {})
            return bool(weights)

        if not self.processes.on_main(choose):  # which alone knows that the last checkpoint is complete
            weights = {name: tensor.detach().cpu().clone() for name, tensor in self.loop.final_weights().items()}
        weights = self.processes.broadcast_tensors(weights)
        if self.processes.is_main:
            diverged = [self.loop.divergence()] if self.loop.progress.trend.is_diverged else []
            self.report(plan, policy.remarks + diverged)
            write_weights(final, weights, self.record.get("files"))
        if self.network.is_sharded():
            self.network = build_network(plan, self.infos(), self.run.seed, "cpu").to(self.device)
        self.network.load(weights)
        return weights

    def warn_of_small_batches(self, plan: StagePlan) -> None:
        """Warn where an update has so few examples that its gradient is mostly noise."""
        for phase in self.loop.phases:
            examples = len(self.corpora[source_of(phase.phase, self.corpora)].splits[phase.phase.split])
            per_update = phase.accumulate * examples / len(phase.feed)
            if per_update < MIN_EXAMPLES <= examples:
                of = f"stage {plan.name}: " if len(self.plans) > 1 else ""
                learning = self.learning
                size = (
                    f"batch_size is {learning.batch_size}" if learning.batch_size else f"batch_tokens is {learning.batch_tokens}"
                )
                self.display.message(
                    f"warning: {of}an update has {per_update:.1f} examples on average ({size}), so training is slow and noisy; "
                    "use at least 16, such as learning.batch_size=32"
                    + (" (batch_tokens counts tokens, not examples)" if not learning.batch_size else "")
                )

    def report(self, plan: StagePlan, remarks: list[str]) -> None:
        """Report what the user must know about the final weights of a stage: on screen, in the log and in metrics.json."""
        for remark in remarks:
            self.display.message(f"warning: stage {plan.name}: {remark}")
            self.folder.write_log({"event": "warning", "stage": plan.index, "step": self.loop.progress.step, "problem": remark})
        self.remarks += remarks

    def build_stage(self, plan: StagePlan, before: dict[str, Tensor]) -> None:
        """Build the network of a stage, initialized from the weights of the previous stage, and check that the parts fit."""
        self.corpora, self.learning, self.evaluation = self.data_of(plan), plan.learning(), plan.evaluation()
        evaluations = plan.evaluations()
        check_early_stopping(self.learning, self.evaluation)
        check_evaluations(plan, evaluations, self.infos())
        splits = list(dict.fromkeys(split for corpus in self.corpora.values() for split in corpus.splits))
        if self.evaluation.every and self.evaluation.split not in splits:
            raise ValueError(f"evaluate.split is {self.evaluation.split!r}, but the data has: {', '.join(splits)}")
        self.network = build_network(plan, self.infos(), self.run.seed, "cpu", report=self.display.message)
        for evaluation in evaluations.values():
            check_metrics(evaluation, self.network.model)
        self.parts = {
            name: EvaluationPart(
                evaluations[name],
                self.network.objectives[part.objective],
                self.corpora[part.source].codec,
                part_splits(self.corpora[part.source], part.member),
            )
            for name, part in parts(plan).items()
        }
        if before:
            loaded = transfer_weights(self.network, before, plan.start)
            total = len(self.network.tensors())
            self.display.message(f"stage {plan.name}: loaded {len(loaded)} of {total} tensors from the previous stage")
        self.network.to(self.device)

    def infos(self) -> dict[str, Info]:
        """Return the fields of each source of the current stage."""
        return {name: corpus.codec.info for name, corpus in self.corpora.items()}

    def build_loop(self, plan: StagePlan) -> CheckpointPolicy:
        """Build the training loop of a stage with its callbacks. Returns the policy that saves its checkpoints."""
        path = self.folder.checkpoints(plan.name, len(self.plans) == 1)
        policy = CheckpointPolicy(self.folder, path, self.learning, plan.index, self.display, self.record)
        if self.processes.is_main:
            policy.checkpoints.clean()
        trained_on = {objective: source for source, objective in reversed(pairs(plan))}
        for name, objective in self.network.objectives.items():
            source = trained_on.get(name, next(iter(self.corpora)))
            objective.setup(self.network.model, next(iter(self.corpora[source].splits.values())))
        callbacks = StageCallbacks(
            seed=self.run.seed,
            stage=plan.index,
            network=self.network,
            parts=self.parts,
            evaluation=self.evaluation,
            policy=policy,
            log=self.log,
            display=self.display,
            meter=self.meter,
            stop=self.stop,
            feeds=self.feeds,
            device=self.device,
            user=self.user,
        )
        self.stages.append(callbacks)

        def make_feed(phase: Phase, objective: Objective, name: str) -> Feed:
            return self.make_feed(plan, phase, objective, name)

        callbacks.loop = self.loop = TrainingLoop(
            self.network,
            self.learning,
            make_feed,
            callbacks,
            seed=self.run.seed,
            stage=plan.index,
            device=self.device,
            precision=self.run.precision,
            processes=self.processes,
        )
        callbacks.steps_per_epoch = self.loop.steps_per_epoch
        return policy

    def make_feed(self, plan: StagePlan, phase: Phase, objective: Objective, name: str) -> Feed:
        """Build the batches of a phase."""
        splits = self.corpora[source_of(phase, self.corpora)].splits
        if phase.split not in splits:
            raise ValueError(f"phase {name}: there is no split {phase.split!r} in the data (splits: {', '.join(splits)})")
        batch_tokens, batch_size = self.learning.batch_tokens, self.learning.batch_size
        seed = (self.run.seed, plan.index, name)
        feed = Feed(splits[phase.split], objective, key=seed, budget=batch_tokens, batch_size=batch_size)
        self.feeds.append(feed)
        return feed

    # ------------------------------------------------------------------------------------------------------------ finish

    def finish(self) -> TrainedRun:
        """Evaluate the final weights and write the final files."""
        results: dict[str, EvaluationResult] = {}
        for split in ("valid", "test"):
            if any(split in part.splits for part in self.parts.values()):
                with self.display.waiting(f"evaluating on {split}"):
                    key = final_key(self.run, split)
                    results[split] = evaluate_parts(self.parts, split, self.network.model, self.device, key=key)
        for found in results.values():
            found.remarks += constant_remarks(found) + self.remarks
        result = artifacts.write_metrics(self.folder, results, self.evaluation.metrics, self.display)
        artifacts.write_ledger(self.folder, join_ledgers(self.corpora), self.progress)
        artifacts.draw_curve(self.folder, self.display)
        trained = self.trained(result)
        artifacts.draw_classifier_plots(trained, self.folder, self.display)
        return trained

    def trained(self, result: EvaluationResult) -> TrainedRun:
        """Return the run with its final weights. Only the first process evaluates; the others have an empty result."""
        model = self.network.model.eval()
        codecs = {name: corpus.codec for name, corpus in self.corpora.items()}
        codec = codecs[main_source(self.plans[-1])]
        return TrainedRun(self.run, model, codec, self.network.objectives, folder=self.folder.path, result=result, codecs=codecs)

    # ------------------------------------------------------------------------------------------------------------- usage

    def add_progress_of_finished(self, plan: StagePlan) -> None:
        """Add the progress of a finished stage at its end, for usage.json and ledger.json."""
        latest = Checkpoints(self.folder.checkpoints(plan.name, len(self.plans) == 1)).latest().path
        found = self.folder.read_finished()["progress"].get(plan.name)
        if latest is not None:
            found = read_json(latest / "state.json")["progress"]
        try:
            self.progress[plan.name] = Progress(**found)
        except TypeError:  # missing or damaged
            self.display.message(
                f"warning: the checkpoints of the finished stage {plan.name} are gone; ledger.json lacks its counts"
            )

    def write_usage(self, cpu: float) -> dict[str, Any]:
        """Add this session to usage.json. Returns the total of the run. ``cpu``: CPU seconds of all processes."""
        self.usage_written = True
        stages = {name: {"tokens": p.tokens, "spent": asdict(p.spent)} for name, p in self.progress.items()}
        return self.folder.add_usage(self.meter.read(cpu), stages)

    def close(self) -> None:
        """Close the log; write the usage of a session that failed or was interrupted."""
        self.log.close()
        if self.started and self.processes.is_main and not self.usage_written:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                self.write_usage(self.meter.cpu_seconds() * self.processes.world)  # the others may be gone
