"""The training loop. A step is one pass over the phases; checkpoints are saved between steps only.

Before each micro-batch the random number generators are seeded with a hash of the training progress. So there is no generator
state to store, and a run resumed from a checkpoint computes what the uninterrupted run would have computed. With several
processes, each has its examples of every batch; decisions depend on sums over all processes, so that all decide alike.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.batch import Clock
from weft.core.contracts import BatchSource, Objective
from weft.core.seeding import key
from weft.learning.active_phase import ActivePhase, MicroBatch, train_only
from weft.learning.choose_sync import choose_sync
from weft.learning.gradient import Gradient
from weft.learning.network import Network
from weft.learning.nonfinite import NonFiniteError
from weft.learning.phase import Phase, phase_names
from weft.learning.processes import Processes
from weft.learning.progress import Interrupted, LoopCallbacks, Progress
from weft.learning.recovery import diagnose, recover
from weft.learning.sharding import full_tensor, full_tensors
from weft.learning.snapshot import restore_snapshot, take_snapshot
from weft.learning.term_totals import TermTotals

_NAME, _MAX_NAME = re.compile(r"[\w-]+"), 100  # bytes: the name is part of file names


class TrainingLoop:
    """Trains a network in the phases of a ``Gradient``.

    Args:
        network: Model and objectives.
        learning: Options of training.
        feeds: Builds the batches of a phase for its objective; the last argument is the name of the phase.
        callbacks: Logging, evaluation, checkpoints.
        seed: Seed of the run.
        stage: Index of the stage.
        device: Device to train on.
        precision: ``fp32``, or ``bf16`` for automatic mixed precision.
        processes: Processes that train together; None = a single process.
    """

    def __init__(
        self,
        network: Network,
        learning: Gradient,
        feeds: Callable[[Phase, Objective, str], BatchSource],
        callbacks: LoopCallbacks,
        *,
        seed: int,
        stage: int,
        device: torch.device,
        precision: str,
        processes: Processes | None = None,
    ):
        self.network, self.learning, self.callbacks, self.device = network, learning, callbacks, device
        self.seed, self.progress, self.processes = seed, Progress(stage=stage), processes or Processes()
        self.processes.broadcast_into(network.tensors())
        self.autocast = lambda: torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
        self.ema = learning.ema() if learning.ema else None
        self.phases: list[ActivePhase] = []
        self.steps_per_epoch = 1.0
        for phase, name in zip(learning.phases, phase_names(learning.phases), strict=True):
            objective = self._objective(phase)
            if self.processes.world > 1 and objective.couples:
                raise ValueError(
                    f"phase {name}: in its objective the examples of a batch interact, so a batch cannot be split over "
                    f"{self.processes.world} processes; train with a single process"
                )
            feed, sync = feeds(phase, objective, name), choose_sync(learning, network, self.processes.world)
            if not self.phases:
                self.steps_per_epoch = learning.resolve_epochs(len(feed))
            self.phases.append(ActivePhase(name, phase, network, objective, feed, learning, sync))
            self.progress.updates[name] = self.progress.batches[name] = 0
        if self.ema:
            self.ema.update(network.tensors())

    def _objective(self, phase: Phase) -> Objective:
        known = self.network.objectives
        if phase.objective is None and len(known) == 1:
            return next(iter(known.values()))
        if phase.objective is None:
            raise ValueError(
                f"the recipe has several objectives ({', '.join(known)}); set the objective of each phase in learning.phases"
            )
        if not _NAME.fullmatch(phase.objective) or len(phase.objective.encode()) > _MAX_NAME:
            raise ValueError(
                f"the name of an objective may have letters, digits, - and _ only, and at most {_MAX_NAME} bytes, "
                f"not {phase.objective[:_MAX_NAME]!r}"
            )
        if phase.objective not in known:
            has = f"has: {', '.join(known)}" if any(known) else "has a single, unnamed one; leave out objective in the phase"
            raise ValueError(f"a phase has the objective {phase.objective!r}, but the recipe {has}")
        return known[phase.objective]

    # ------------------------------------------------------------------------------------------------------ training

    def run(self, resume: bool) -> None:
        """Train from the newest checkpoint, or from the start, to the last step."""
        if resume:
            self.restore()
        else:
            self.save()
        since = (self.progress.tokens, self.progress.elapsed)
        row: dict[str, Any] = {}  # values of the last update of each phase since the last log entry
        while self.progress.step < self.learning.steps and not self.progress.stopped:
            start, now = time.perf_counter(), dict[str, Any]()
            try:
                for phase in self.phases:
                    if phase.runs_in(self.progress.step):
                        now |= self.run_phase(phase)
            except NonFiniteError as error:
                if not recover(self, error):
                    raise
                if self.learning.on_nonfinite == "rollback":
                    since = (self.progress.tokens, self.progress.elapsed)
                    continue
                now = {}  # skip: the remaining phases of the step are skipped too
            p, row = self.progress, row | now
            p.step += 1
            self.watch_loss(now)
            if self.ema:
                self.ema.update(self.network.tensors())
            p.elapsed += time.perf_counter() - start
            last = p.step == self.learning.steps
            if last or p.step % self.learning.log_every == 0:
                rate = (p.tokens - since[0]) / max(p.elapsed - since[1], 1e-9)
                self.log({"step": p.step, **row, "tokens": p.tokens, "tokens_per_second": rate, **self.times()})
                since, row = (p.tokens, p.elapsed), {}
            improved = self.evaluate(last)
            stop = self.processes.any(self.callbacks.should_stop())
            every = self.learning.save_every
            if last or stop or improved or p.stopped or (every and p.step % every == 0):
                self.save()
            if stop and not last:
                raise Interrupted
        if not any(self.progress.updates.values()):
            raise ValueError(self._no_updates())

    def _no_updates(self) -> str:
        """Return the message for a run without any optimizer step."""
        p = self.progress
        empty = sum(counts.get("skipped", 0) for counts in p.counts.values())
        causes = [f"{p.skips} updates were non-finite", f"{sum(map(len, p.left_out.values()))} examples are excluded"]
        causes += [f"{empty:,} times the objective skipped an example (too short?)"] if empty else []
        return f"no optimizer step was taken in {p.step} steps: {', '.join(causes)}"

    def run_phase(self, phase: ActivePhase) -> dict[str, Any]:
        """Run all updates of a phase in one step. Returns the values of the last one, to be logged."""
        row: dict[str, Any] = {}
        self.network.train()
        train_only(self.network.parameters(), phase.parameters)
        for repeat in range(phase.phase.repeat):
            with self.progress.spent.measure("data"):
                micro_batches = self.next_micro_batches(phase)
            for again in range(phase.phase.reuse if micro_batches else 0):
                row = self.update(phase, micro_batches, repeat, again)
        prefix = f"{phase.name}/" if len(self.phases) > 1 else ""
        return {prefix + k: v for k, v in row.items()}

    def next_micro_batches(self, phase: ActivePhase) -> list[MicroBatch]:
        """Return the micro-batches of the next update: the same number in every process, without those that are empty in all."""
        without = frozenset(self.progress.left_out.get(phase.phase.dataset, ()))
        first, world = self.progress.batches[phase.name], self.processes.world
        draws = range(first, first + phase.accumulate)
        before = phase.feed.counts()
        own = [phase.feed.batch(draw, without, self.processes.rank, world) for draw in draws]
        counted = {name: number - before[name] for name, number in phase.feed.counts().items()}
        gathered = self.processes.gather(([batch and batch.tokens() for batch in own], counted))
        tokens = [of_one for of_one, _ in gathered]
        total = self.progress.counts.setdefault(phase.feed.name, {})
        for name in counted:
            total[name] = total.get(name, 0) + sum(numbers[name] for _, numbers in gathered)
        self.progress.batches[phase.name] += phase.accumulate
        micro_batches: list[MicroBatch] = []
        for draw, batch, of_all in zip(draws, own, zip(*tokens, strict=True), strict=True):
            self.progress.tokens += sum(n for n in of_all if n is not None)
            holder = next((rank for rank, n in enumerate(of_all) if n is not None), None)
            if holder is None:
                continue
            own_batch = batch or phase.feed.batch(draw, without, holder, world)
            assert own_batch is not None
            buffers = {name: self.network.buffers()[name].clone() for name in phase.frozen}
            self.seed_generators(phase, "collect", draw + 1)
            with torch.no_grad(), self.autocast(), phase.sync.unsharded() if phase.collects else contextlib.nullcontext():
                collected = phase.objective.collect(self.network.model, own_batch.to(self.device))
            self.restore_buffers(buffers, phase.frozen)
            micro_batches.append(MicroBatch(collected, batch is not None))
        return micro_batches

    def seed_generators(self, phase: ActivePhase, *position: int | str) -> None:
        """Seed the random number generators by the training progress: there is no state to store."""
        progress = (self.seed, self.progress.stage, self.progress.step, phase.name)
        torch.manual_seed(key(*progress, *position, self.processes.rank))

    def update(self, phase: ActivePhase, micro_batches: list[MicroBatch], repeat: int, again: int) -> dict[str, Any]:
        """Take one optimizer step on sum_k weight_k total_k / N_k, with N_k counted over all micro-batches and processes."""
        done, spent = self.progress.updates[phase.name], self.progress.spent
        clock = Clock(done, phase.total, (self.progress.batches[phase.name] - 1) // len(phase.feed))
        buffers = {name: buffer.clone() for name, buffer in self.network.buffers().items()}
        phase.optimizer.zero_grad(set_to_none=True)
        totals = self.accumulate_gradients(phase, micro_batches, repeat, again, clock)
        with spent.measure("backward"):
            phase.sync.finish()
        with spent.measure("optimizer"):
            norm_tensor = full_tensor(nn.utils.clip_grad_norm_(phase.parameters.values(), phase.clip or float("inf")))
        with spent.measure("backward"):  # the host waits for the device here
            loss, sums, grad_norm = totals.read(norm_tensor)
            means = self.processes.sum({"": loss, **sums})
            loss = means.pop("")
        if not math.isfinite(loss):
            grad_norm = loss
        if not math.isfinite(grad_norm):
            error = diagnose(self, phase, micro_batches, repeat, again, clock, loss, grad_norm)
            self.restore_buffers(buffers, set(buffers))
            raise error
        factor = phase.schedule.factor(done, phase.total)
        for group in phase.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        with spent.measure("optimizer"):
            phase.optimizer.step()
        for constraint in phase.phase.constrain:
            constraint.apply(phase.parameters)
        self.restore_buffers(buffers, phase.frozen)
        self.broadcast_buffers(buffers)
        phase.objective.observe(means)
        self.progress.updates[phase.name] += 1
        terms = means if set(means) != {"loss"} else {}
        lr = max(group["lr"] for group in phase.optimizer.param_groups)
        return {"loss": loss, **terms, "lr": lr, "grad_norm": grad_norm, "epoch": clock.epoch}

    def accumulate_gradients(
        self, phase: ActivePhase, micro_batches: list[MicroBatch], repeat: int, again: int, clock: Clock
    ) -> TermTotals:
        """Run forward and backward passes of all micro-batches. Returns the totals of the loss terms, still on the device."""
        spent, own = self.progress.spent, dict[str, float]()
        for micro in micro_batches:
            for term, n in phase.objective.counts(micro.batch).items():
                own[term] = own.get(term, 0) + n * micro.real
        counts = self.processes.sum(own)
        totals = TermTotals(own, counts)
        for i, micro in enumerate(micro_batches):
            self.seed_generators(phase, repeat, again, i)
            with contextlib.nullcontext() if i == len(micro_batches) - 1 else phase.sync.no_sync():
                with spent.measure("forward"), self.autocast(), micro.batch.naming(phase.phase.dataset):
                    terms = phase.step(micro.batch, clock)
                loss = torch.stack([t.weight * t.total.float() / max(counts[k], 1) for k, t in terms.items()]).sum()
                if not loss.requires_grad:
                    raise ValueError(
                        f"phase {phase.name}: the loss does not depend on the trained parameters ({', '.join(phase.phase.train)})"
                    )
                with spent.measure("backward"):
                    (loss * float(micro.real)).backward()
            if micro.real:
                totals.add(loss, terms)
        return totals

    def restore_buffers(self, buffers: dict[str, Tensor], names: set[str]) -> None:
        """Copy back the values that some buffers had before the update."""
        for name, buffer in self.network.buffers().items():
            if name in names:
                buffer.copy_(buffers[name])

    def broadcast_buffers(self, before: dict[str, Tensor]) -> None:
        """Use the batch statistics of the first process in all of them: each has computed its own."""
        own = self.network.buffers()
        if self.processes.world > 1 and own:
            changed = {name: buffer for name, buffer in own.items() if not torch.equal(buffer, before[name])}
            for name, value in self.processes.broadcast_tensors(changed).items():
                own[name].copy_(value)

    # ------------------------------------------------------------------------------------- logging, evaluation, checkpoints

    def watch_loss(self, row: dict[str, Any]) -> None:
        """Log a warning when the training loss diverges."""
        if len(self.phases) == 1 and "loss" in row and self.progress.trend.add(row["loss"], self.progress.step):
            self.log({"event": "warning", "step": self.progress.step, "problem": self.divergence()})

    def divergence(self) -> str:
        """Return what to do about a training loss that diverges."""
        return self.progress.trend.problem(max(group["peak"] for group in self.phases[0].optimizer.param_groups))

    def log(self, row: dict[str, Any]) -> None:
        """Log values, in the first process only."""
        if self.processes.is_main:
            self.callbacks.on_log(row)

    def times(self) -> dict[str, Any]:
        """Return the seconds of training so far, in total and by part of the training step."""
        spent = {name: round(seconds, 3) for name, seconds in asdict(self.progress.spent).items()}
        return {"elapsed": round(self.progress.elapsed, 3), "seconds": spent}

    def evaluate(self, last: bool) -> bool:
        """Evaluate if it is due after this step. Returns whether the score is the best so far."""
        p = self.progress
        if not self.callbacks.should_evaluate(p, last):
            return False
        with self.final_weights_loaded(), self.phases[0].sync.unsharded():
            score = self.processes.on_main(lambda: self.callbacks.evaluate(p, last))
        if score is None:
            return False
        if math.isfinite(score) and (p.best is None or score > p.best):
            p.best, p.best_step, p.stale = score, p.step, 0
            return True
        p.stale += 1
        p.stopped = bool(self.learning.patience) and p.stale >= self.learning.patience
        return False

    def save(self) -> None:
        """Save a checkpoint, in the first process only."""
        tensors, documents = take_snapshot(self.network, self.phases, self.ema, self.progress)
        if self.processes.is_main:
            self.callbacks.save(tensors, documents, self.progress)

    def restore(self) -> None:
        """Restore the latest intact checkpoint."""
        files, documents = self.callbacks.restore() if self.processes.is_main else ({}, {})
        documents = self.processes.broadcast(documents)
        tensors = {name: self.processes.broadcast_tensors(files.get(name)) for name in self.processes.broadcast(list(files))}
        self.progress = restore_snapshot(self.network, self.phases, self.ema, tensors, documents)

    # ---------------------------------------------------------------------------------------------------------- weights

    @contextlib.contextmanager
    def final_weights_loaded(self) -> Iterator[None]:
        """A context in which the network has the weights of ``final_weights``."""
        own = {name: tensor.clone() for name, tensor in self.network.tensors().items()} if self.ema else {}
        if self.ema:
            self.network.load(self.ema.tensors())
        yield
        if self.ema:
            self.network.load(own)

    def final_weights(self) -> Mapping[str, Tensor]:
        """Return the full weights to evaluate and to keep: the moving average if there is one, else those of the network."""
        return full_tensors(self.ema.tensors() if self.ema else self.network.tensors())
