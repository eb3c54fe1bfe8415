"""The loop. A round is one pass over the phases; checkpoints are written between rounds only.

Before each micro-batch the generators are seeded with a hash of where training stands, so no generator's state is stored, and a
run that is resumed from a checkpoint does what it would have done. With several processes each has its rows of every batch;
what is decided depends on sums over all of them, so that all decide the same.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.batch import Clock
from weft.core.contracts import Feed, Objective
from weft.core.seeding import key
from weft.learning.active_phase import Active, Micro, only
from weft.learning.choose_sync import choose_sync
from weft.learning.gradient import Gradient
from weft.learning.network import Network
from weft.learning.nonfinite import NonFinite, finite
from weft.learning.phase import Phase
from weft.learning.processes import Processes
from weft.learning.progress import Interrupted, Progress, Watcher
from weft.learning.recovery import recover, trouble_of
from weft.learning.sharding import gathered, gathered_all
from weft.learning.snapshot import pack, unpack
from weft.learning.term_totals import TermTotals

_NAME = re.compile(r"[\w-]+")


class Loop:
    """Trains a network by the phases of a ``Gradient``.

    Args:
        network: Model and objectives.
        learning: The choices.
        feeds: Makes the batches of a split for an objective, under the name of a phase.
        watcher: Is told of updates, evaluates, saves.
        processes: Those that train together; none = this one alone.
    """

    def __init__(
        self,
        network: Network,
        learning: Gradient,
        feeds: Callable[[str, Objective, str], Feed],
        watcher: Watcher,
        *,
        seed: int,
        stage: int,
        device: torch.device,
        precision: str,
        processes: Processes | None = None,
    ):
        self.network, self.learning, self.watcher, self.device = network, learning, watcher, device
        self.seed, self.progress, self.processes = seed, Progress(stage=stage), processes or Processes()
        self.processes.same(network.tensors())
        self.autocast = lambda: torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
        self.ema = learning.ema() if learning.ema else None
        self.phases: list[Active] = []
        for i, phase in enumerate(learning.phases):
            objective = self._objective(phase)
            name = phase.objective or ("main" if len(learning.phases) == 1 else f"phase-{i}")
            name = name if name not in [p.name for p in self.phases] else f"{name}-{i}"
            if self.processes.world > 1 and objective.couples:
                raise ValueError(
                    f"phase {name}: in its objective the examples of a batch interact, so a batch cannot be divided among "
                    f"{self.processes.world} processes: train it with one"
                )
            feed, sync = feeds(phase.data, objective, name), choose_sync(learning, network, self.processes.world)
            self.phases.append(Active(name, phase, network, objective, feed, learning, sync))
            self.progress.updates[name] = self.progress.drawn[name] = 0
        if self.ema:
            self.ema.update(network.tensors())

    def _objective(self, phase: Phase) -> Objective:
        known = self.network.objectives
        if phase.objective is None and len(known) == 1:
            return next(iter(known.values()))
        if phase.objective is None:
            raise ValueError(
                f"the recipe has several objectives ({', '.join(known)}): say in learning.phases which one is trained when"
            )
        if not _NAME.fullmatch(phase.objective):
            raise ValueError(f"the name of an objective is letters, digits, - and _, not {phase.objective!r}")
        if phase.objective not in known:
            has = f"has: {', '.join(known)}" if any(known) else "has one without a name: leave objective out of the phase"
            raise ValueError(f"a phase names the objective {phase.objective!r}, but the recipe {has}")
        return known[phase.objective]

    # ------------------------------------------------------------------------------------------------------- the loop

    def run(self, resume: bool) -> None:
        """Train from the newest checkpoint, or from the start, to the last round."""
        if resume:
            self.restore()
        else:
            self.save()
        since = (self.progress.tokens, self.progress.elapsed)
        row: dict[str, Any] = {}  # the last update of each phase since the last line of the log: not all are due in every round
        while self.progress.round < self.learning.steps and not self.progress.stopped:
            began, now = time.perf_counter(), dict[str, Any]()
            try:
                for phase in self.phases:
                    if phase.due(self.progress.round):
                        now |= self.run_phase(phase)
            except NonFinite as trouble:
                if not recover(self, trouble):
                    raise
                if self.learning.on_nonfinite == "rollback":
                    since = (self.progress.tokens, self.progress.elapsed)
                    continue
                now = {}  # skip: the other phases of this round are left out as well, they would build on it
            p, row = self.progress, row | now
            p.round += 1
            if self.ema:
                self.ema.update(self.network.tensors())
            p.elapsed += time.perf_counter() - began
            last = p.round == self.learning.steps
            if last or p.round % self.learning.log_every == 0:
                rate = (p.tokens - since[0]) / max(p.elapsed - since[1], 1e-9)
                self.log({"round": p.round, **row, "tokens": p.tokens, "tokens_per_second": rate, **self.times()})
                since, row = (p.tokens, p.elapsed), {}
            improved = self.evaluate(last)
            stop = self.processes.any(self.watcher.should_stop())
            every = self.learning.save_every
            if last or stop or improved or p.stopped or (every and p.round % every == 0):
                self.save()
            if stop and not last:
                raise Interrupted
        if not any(self.progress.updates.values()):
            left_out = sum(map(len, self.progress.left_out.values()))
            empty = sum(getattr(phase.feed, "skipped", 0) for phase in self.phases)
            why = f"; {empty:,} times the objective had nothing to learn from a row: too short, or too few?" if empty else ""
            raise ValueError(
                f"nothing was learnt: in {self.progress.round} rounds not one update could be made "
                f"({self.progress.skips} were not finite, {left_out} rows are left out{why})"
            )

    def run_phase(self, phase: Active) -> dict[str, Any]:
        """All updates of a phase in one round."""
        row: dict[str, Any] = {}
        self.network.train()
        only(self.network.parameters(), phase.parameters)
        for repeat in range(phase.phase.repeat):
            with self.progress.spent.on("data"):
                micros = self.draw(phase)
            for again in range(phase.phase.reuse if micros else 0):
                row = self.update(phase, micros, repeat, again)
        prefix = f"{phase.name}/" if len(self.phases) > 1 else ""
        return {prefix + k: v for k, v in row.items()}

    def draw(self, phase: Active) -> list[Micro]:
        """The micro-batches of an update, as many in every process: those of which no process has a row are left out."""
        without = frozenset(self.progress.left_out.get(phase.phase.data, ()))
        first, world = self.progress.drawn[phase.name], self.processes.world
        draws = range(first, first + phase.accumulate)
        own = [phase.feed.batch(draw, without, self.processes.rank, world) for draw in draws]
        tokens = self.processes.gather([batch and batch.tokens() for batch in own])
        self.progress.drawn[phase.name] += phase.accumulate
        micros: list[Micro] = []
        for draw, batch, of_all in zip(draws, own, zip(*tokens, strict=True), strict=True):
            self.progress.tokens += sum(n for n in of_all if n is not None)
            holder = next((rank for rank, n in enumerate(of_all) if n is not None), None)
            if holder is None:
                continue
            there = batch or phase.feed.batch(draw, without, holder, world)
            assert there is not None
            buffers = {name: self.network.buffers()[name].clone() for name in phase.frozen}
            self.reseed(phase, "collect", draw + 1)
            with torch.no_grad(), self.autocast(), phase.sync.whole() if phase.collects else contextlib.nullcontext():
                collected = phase.objective.collect(self.network.model, there.to(self.device))
            self.put_back(buffers, phase.frozen)
            micros.append(Micro(collected, batch is not None))
        return micros

    def reseed(self, phase: Active, *place: int | str) -> None:
        """Seed the generators by where training stands: there is no state to store, and resuming changes nothing."""
        about = (self.seed, self.progress.stage, self.progress.round, phase.name)
        torch.manual_seed(key(*about, *place, self.processes.rank))

    def update(self, phase: Active, micros: list[Micro], repeat: int, again: int) -> dict[str, Any]:
        """One step of the optimiser: sum_k weight_k total_k / N_k over the micro-batches, N_k counted over all of them, in all
        processes."""
        done, spent = self.progress.updates[phase.name], self.progress.spent
        clock = Clock(done, phase.total, (self.progress.drawn[phase.name] - 1) // len(phase.feed))
        buffers = {name: buffer.clone() for name, buffer in self.network.buffers().items()}
        own: dict[str, float] = {}
        for micro in micros:
            for term, n in phase.objective.counts(micro.batch).items():
                own[term] = own.get(term, 0) + n * micro.real
        counts = self.processes.sum(own)
        phase.optimizer.zero_grad(set_to_none=True)
        totals = TermTotals(own, counts)
        for i, micro in enumerate(micros):
            self.reseed(phase, repeat, again, i)
            with contextlib.nullcontext() if i == len(micros) - 1 else phase.sync.hold():
                with spent.on("forward"), self.autocast(), micro.batch.naming(phase.phase.data):
                    terms = phase.step(micro.batch, clock)
                value = torch.stack([t.weight * t.total.float() / max(counts[k], 1) for k, t in terms.items()]).sum()
                if not value.requires_grad:
                    raise ValueError(f"phase {phase.name}: its loss does not depend on what it trains ({phase.phase.train})")
                with spent.on("backward"):
                    (value * float(micro.real)).backward()
            if micro.real:
                totals.add(value, terms)
        with spent.on("backward"):
            phase.sync.finish()
        with spent.on("optimizer"):
            clipped = gathered(nn.utils.clip_grad_norm_(phase.parameters.values(), phase.clip or float("inf")))
        with spent.on("backward"):  # the host waits for the device here
            total, sums, norm = totals.read(clipped)
            means = self.processes.sum({"": total, **sums})
            total = means.pop("")
        if not finite(total):
            norm = total
        if not finite(norm):
            trouble = trouble_of(self, phase, micros, repeat, again, clock, total, norm)
            self.put_back(buffers, set(buffers))
            raise trouble
        factor = phase.schedule.factor(done, phase.total)
        for group in phase.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        with spent.on("optimizer"):
            phase.optimizer.step()
        for constraint in phase.phase.constrain:
            constraint.apply(phase.parameters)
        self.put_back(buffers, phase.frozen)
        self.agree_on_buffers(buffers)
        phase.objective.observe(means)
        self.progress.updates[phase.name] += 1
        terms = means if set(means) != {"loss"} else {}
        rate = max(group["lr"] for group in phase.optimizer.param_groups)
        return {"loss": total, **terms, "lr": rate, "grad_norm": norm, "epoch": clock.epoch}

    def put_back(self, buffers: dict[str, Tensor], names: set[str]) -> None:
        for name, buffer in self.network.buffers().items():
            if name in names:
                buffer.copy_(buffers[name])

    def agree_on_buffers(self, before: dict[str, Tensor]) -> None:
        """Statistics of batches are the first process': each has seen rows of its own."""
        own = self.network.buffers()
        if self.processes.world > 1 and own:
            moved = {name: buffer for name, buffer in own.items() if not torch.equal(buffer, before[name])}
            for name, value in self.processes.share_tensors(moved).items():
                own[name].copy_(value)

    # --------------------------------------------------------------------------------- what only the first process does

    def log(self, row: dict[str, Any]) -> None:
        if self.processes.first:
            self.watcher.logged(row)

    def times(self) -> dict[str, Any]:
        """Seconds of training so far, and what they went into."""
        spent = {name: round(seconds, 3) for name, seconds in asdict(self.progress.spent).items()}
        return {"elapsed": round(self.progress.elapsed, 3), "seconds": spent}

    def evaluate(self, last: bool) -> bool:
        """Evaluate when it is time; True when these are the best weights so far."""
        p = self.progress
        if not self.watcher.due(p, last):
            return False
        with self.final_weights(), self.phases[0].sync.whole():
            figure = self.processes.ask_first(lambda: self.watcher.evaluate(p, last))
        if figure is None:
            return False
        if finite(figure) and (p.best is None or figure > p.best):
            p.best, p.best_round, p.stale = figure, p.round, 0
            return True
        p.stale += 1
        p.stopped = bool(self.learning.patience) and p.stale >= self.learning.patience
        return False

    def save(self) -> None:
        tensors, documents = pack(self.network, self.phases, self.ema, self.progress)
        if self.processes.first:
            self.watcher.save(tensors, documents, self.progress)

    def restore(self) -> None:
        files, documents = self.watcher.restore() if self.processes.first else ({}, {})
        documents = self.processes.share(documents)
        tensors = {name: self.processes.share_tensors(files.get(name)) for name in self.processes.share(list(files))}
        self.progress = unpack(self.network, self.phases, self.ema, tensors, documents)

    # ---------------------------------------------------------------------------------------------------------- weights

    @contextlib.contextmanager
    def final_weights(self) -> Iterator[None]:
        """Within it, the network has the weights that would be kept."""
        own = {name: tensor.clone() for name, tensor in self.network.tensors().items()} if self.ema else {}
        if self.ema:
            self.network.load(self.ema.tensors())
        yield
        if self.ema:
            self.network.load(own)

    def final(self) -> Mapping[str, Tensor]:
        """The weights to evaluate and to keep, whole: the moving average if there is one, else the network's own."""
        return gathered_all(self.ema.tensors() if self.ema else self.network.tensors())
