"""The loop. A round is one pass over the phases; checkpoints are written between rounds only.

Before each micro-batch the generators are seeded with a hash of where training stands, so no generator's state is stored, and a
run that is resumed from a checkpoint does what it would have done.
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

from weft.batch import Batch, Clock
from weft.keys import key
from weft.learning.active import Active
from weft.learning.gradient import Gradient
from weft.learning.network import Network, Step
from weft.learning.nonfinite import NonFinite, bad_parameter, finite, watching
from weft.learning.optimizers import flatten_state, restore_state
from weft.learning.phase import Phase
from weft.learning.progress import Interrupted, Progress, Watcher
from weft.learning.sync import Alone
from weft.slots import Feed, Objective

_NAME = re.compile(r"[\w-]+")


class Loop:
    """Trains a network by the phases of a ``Gradient``.

    Args:
        network: Model and objectives.
        learning: The choices.
        feeds: Makes the batches of a split for an objective, under the name of a phase.
        watcher: Is told of updates, evaluates, saves.
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
    ):
        self.network, self.learning, self.watcher, self.device = network, learning, watcher, device
        self.seed, self.sync, self.progress = seed, Alone(), Progress(stage=stage)
        self.autocast = lambda: torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
        self.ema = learning.ema() if learning.ema else None
        if self.ema:
            self.ema.update(network.tensors())
        self.phases: list[Active] = []
        for i, phase in enumerate(learning.phases):
            objective = self._objective(phase)
            name = phase.objective or ("main" if len(learning.phases) == 1 else f"phase-{i}")
            name = name if name not in [p.name for p in self.phases] else f"{name}-{i}"
            self.phases.append(Active(name, phase, network, objective, feeds(phase.data, objective, name), learning))
            self.sync.attach(nn.ModuleList([network.model, objective]), list(self.phases[-1].parameters.values()))
            self.progress.updates[name] = self.progress.drawn[name] = 0

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
        started, tokens = time.perf_counter(), self.progress.tokens
        while self.progress.round < self.learning.steps and not self.progress.stopped:
            row: dict[str, Any] = {}
            try:
                for phase in self.phases:
                    if phase.due(self.progress.round):
                        row |= self.run_phase(phase)
            except NonFinite as trouble:
                if not self.recover(trouble):
                    raise
                if self.learning.on_nonfinite == "rollback":
                    started, tokens = time.perf_counter(), self.progress.tokens
                    continue
                row = {}  # skip: the other phases of this round are left out as well, they would build on it
            self.progress.round += 1
            if self.ema:
                self.ema.update(self.network.tensors())
            last = self.progress.round == self.learning.steps
            if last or self.progress.round % self.learning.log_every == 0:
                rate = (self.progress.tokens - tokens) / max(time.perf_counter() - started, 1e-9)
                self.watcher.logged(
                    {"round": self.progress.round, **row, "tokens": self.progress.tokens, "tokens_per_second": rate}
                )
                started, tokens = time.perf_counter(), self.progress.tokens
            improved = self.evaluate(last)
            stop = self.watcher.wants_stop()
            every = self.learning.save_every
            if last or stop or improved or self.progress.stopped or (every and self.progress.round % every == 0):
                self.save()
            if stop and not last:
                raise Interrupted
        if not any(self.progress.updates.values()):
            left_out = sum(map(len, self.progress.left_out.values()))
            raise ValueError(
                f"nothing was learnt: in {self.progress.round} rounds not one update could be made "
                f"({self.progress.skips} were not finite, {left_out} rows are left out)"
            )

    def run_phase(self, phase: Active) -> dict[str, Any]:
        """All updates of a phase in one round."""
        row: dict[str, Any] = {}
        self.network.train()
        for name, parameter in self.network.parameters().items():
            parameter.requires_grad_(name in phase.parameters)
        for repeat in range(phase.phase.repeat):
            micros = [b for b in (self.draw(phase) for _ in range(phase.accumulate)) if b is not None]
            for again in range(phase.phase.reuse if micros else 0):
                row = self.update(phase, micros, repeat, again)
        prefix = f"{phase.name}/" if len(self.phases) > 1 else ""
        return {prefix + k: v for k, v in row.items()}

    def draw(self, phase: Active) -> Batch | None:
        without = frozenset(self.progress.left_out.get(phase.phase.data, ()))
        batch = phase.feed.batch(self.progress.drawn[phase.name], without, self.sync.rank, self.sync.world)
        self.progress.drawn[phase.name] += 1
        if batch is None:
            return None
        self.progress.tokens += batch.tokens()
        buffers = {name: self.network.buffers()[name].clone() for name in phase.frozen}
        self.reseed(phase, "collect", self.progress.drawn[phase.name])
        with torch.no_grad(), self.autocast():
            collected = phase.objective.collect(self.network.model, batch.to(self.device))
        self.put_back(buffers, phase.frozen)
        return collected

    def reseed(self, phase: Active, *place: int | str) -> None:
        """Seed the generators by where training stands: there is no state to store, and resuming changes nothing."""
        about = (self.seed, self.progress.stage, self.progress.round, phase.name)
        torch.manual_seed(key(*about, *place, self.sync.rank))

    def update(self, phase: Active, micros: list[Batch], repeat: int, again: int) -> dict[str, Any]:
        """One step of the optimiser: sum_k weight_k total_k / N_k over the micro-batches, N_k counted over all of them."""
        done = self.progress.updates[phase.name]
        clock = Clock(done, phase.total, (self.progress.drawn[phase.name] - 1) // len(phase.feed))
        buffers = {name: buffer.clone() for name, buffer in self.network.buffers().items()}
        counts: dict[str, float] = {}
        for batch in micros:
            for term, n in phase.objective.counts(batch).items():
                counts[term] = counts.get(term, 0) + n
        counts = self.sync.total(counts)
        phase.optimizer.zero_grad(set_to_none=True)
        total, means = 0.0, dict.fromkeys(counts, 0.0)
        for i, batch in enumerate(micros):
            self.reseed(phase, repeat, again, i)
            with contextlib.nullcontext() if i == len(micros) - 1 else self.sync.hold():
                with self.autocast():
                    terms = phase.step(batch, clock)
                value = torch.stack([t.weight * t.total.float() / max(counts[k], 1) for k, t in terms.items()]).sum()
                if not value.requires_grad:
                    raise ValueError(f"phase {phase.name}: its loss does not depend on what it trains ({phase.phase.train})")
                total += value.item()
                if finite(total):
                    value.backward()
            for k, t in terms.items():
                means[k] += t.total.item() / max(counts[k], 1)
        self.sync.finish()
        norm = nn.utils.clip_grad_norm_(phase.parameters.values(), phase.clip or float("inf")).item() if finite(total) else total
        if not finite(norm):
            what = f"the loss is {total}" if not finite(total) else f"the norm of the gradient is {norm}"
            module = self.find(phase, micros, repeat, again, clock)
            self.put_back(buffers, set(buffers))
            raise NonFinite(done, phase.name, [r for b in micros for r in b.rows], what, module)
        factor = phase.schedule.factor(done, phase.total)
        for group in phase.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        phase.optimizer.step()
        for constraint in phase.phase.constrain:
            constraint.apply(phase.parameters)
        self.put_back(buffers, phase.frozen)
        phase.objective.observe(means)
        self.progress.updates[phase.name] += 1
        terms = means if set(means) != {"loss"} else {}
        return {"loss": total, **terms, "lr": phase.optimizer.param_groups[0]["lr"], "grad_norm": norm, "epoch": clock.epoch}

    def put_back(self, buffers: dict[str, Tensor], names: set[str]) -> None:
        for name, buffer in self.network.buffers().items():
            if name in names:
                buffer.copy_(buffers[name])

    def evaluate(self, last: bool) -> bool:
        """Evaluate when it is time; True when these are the best weights so far."""
        p = self.progress
        with self.final_weights():
            figure = self.watcher.evaluate(p, last)
        if figure is None:
            return False
        if finite(figure) and (p.best is None or figure > p.best):
            p.best, p.best_round, p.stale = figure, p.round, 0
            return True
        p.stale += 1
        p.stopped = bool(self.learning.patience) and p.stale >= self.learning.patience
        return False

    # --------------------------------------------------------------------------------------------- what can go wrong

    def recover(self, trouble: NonFinite) -> bool:
        """Skip the update, or go back to the last checkpoint without its rows; False = stop."""
        p, policy = self.progress, self.learning.on_nonfinite
        if policy == "stop" or p.skips >= self.learning.most_skips:
            return False
        self.watcher.logged({"event": policy, "round": p.round + 1, "problem": str(trouble), "rows": trouble.rows})
        data = next(a.phase.data for a in self.phases if a.name == trouble.phase)
        if policy == "skip":
            p.skips += 1
            p.skipped.setdefault(data, []).extend(trouble.rows)
            return True
        left_out, skips = p.left_out, p.skips
        left_out[data] = sorted({*left_out.get(data, []), *trouble.rows})
        self.restore()
        self.progress.left_out, self.progress.skips = left_out, skips + 1
        return True

    def find(self, phase: Active, micros: list[Batch], repeat: int, again: int, clock: Clock) -> str:
        """Compute the update's loss once more, to name the first module whose output is not finite."""
        if bad := bad_parameter(self.network.parameters(), "data"):
            return f"the weights themselves ({bad})"
        for i, batch in enumerate(micros):
            self.reseed(phase, repeat, again, i)
            with torch.no_grad(), self.autocast(), watching(Step(self.network.model, phase.objective)) as found:
                phase.objective(self.network.model, batch, clock)
            if found:
                return found[0].removeprefix("model.")
        bad = bad_parameter(phase.parameters, "grad")
        return f"the gradient of {bad}" if bad else "the sum of the loss's terms"

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def save(self) -> None:
        tensors = {"model.safetensors": self.network.tensors()}
        rest: dict[str, Any] = {}
        for phase in self.phases:
            names = {p: n for n, p in phase.parameters.items()}
            tensors[f"optimizer-{phase.name}.safetensors"], rest[phase.name] = flatten_state(phase.optimizer, names)
        if self.ema:
            tensors["ema.safetensors"] = self.ema.state()
        self.watcher.save(tensors, {"state.json": {"progress": asdict(self.progress), "optimizers": rest}}, self.progress)

    def restore(self) -> None:
        tensors, documents = self.watcher.restore()
        state = documents["state.json"]
        self.network.load(tensors["model.safetensors"])
        for phase in self.phases:
            names = {p: n for n, p in phase.parameters.items()}
            restore_state(phase.optimizer, names, tensors[f"optimizer-{phase.name}.safetensors"], state["optimizers"][phase.name])
        if self.ema:
            self.ema.restore(tensors["ema.safetensors"])
        self.progress = Progress(**state["progress"])

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
        """The weights to evaluate and to keep: the moving average if there is one, else the network's own."""
        return self.ema.tensors() if self.ema else self.network.tensors()
