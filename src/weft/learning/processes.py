"""The processes of one run, and what they tell each other: JSON and the bytes of tensors, so that nothing is unpickled."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

_ROOM = 1016
"""Bytes of a document that are sent at once; a longer one takes a second turn."""
_PATIENCE = timedelta(days=7)
"""Others wait while the first evaluates. One that died is noticed at once: its connections close."""
_QUIET = 0.1
"""Seconds until gloo's threads have let go of the last tensors. They need Python's lock for that, and who destroys the group
holds it while waiting for them."""
_STARTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused")


class Processes:
    """One process among ``world``. Every method but ``first`` and ``place`` is to be called by all of them, in the same order.

    Args:
        rank: The number of this process.
        world: How many there are.
    """

    def __init__(self, rank: int = 0, world: int = 1):
        self.rank, self.world = rank, world

    @property
    def first(self) -> bool:
        """The one that writes files, evaluates and talks."""
        return self.rank == 0

    def place(self, device: torch.device) -> torch.device:
        """Each process of a machine has a device of its own, where there are several."""
        if device.type != "cuda" or self.world == 1:
            return device
        own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(own)
        return own

    # ------------------------------------------------------------------------------------------------------- documents

    def gather(self, document: Any) -> list[Any]:
        """The documents of all processes, by rank."""
        if self.world == 1:
            return [document]
        own = json.dumps(document).encode()
        found = self._exchange(own, _ROOM)
        longest = max(length for length, _ in found)
        if longest > _ROOM:
            found = self._exchange(own, longest)
        return [json.loads(data[:length]) for length, data in found]

    def _exchange(self, own: bytes, room: int) -> list[tuple[int, bytes]]:
        """The length of what each process sends, and its first bytes."""
        import torch.distributed as dist

        sent = _tensor(len(own).to_bytes(8, "little") + own[:room].ljust(room, b"\0"))
        received = [torch.empty_like(sent) for _ in range(self.world)]
        dist.all_gather(received, sent)
        raw = [bytes(tensor.numpy()) for tensor in received]
        return [(int.from_bytes(one[:8], "little"), one[8:]) for one in raw]

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """Sums over all processes by name, added in the order of ranks; a name may be missing in some of them."""
        total: dict[str, float] = {}
        for of_one in self.gather(dict(values)):
            for name, value in of_one.items():
                total[name] = total.get(name, 0) + value
        return total

    def any(self, flag: bool) -> bool:
        return any(self.gather(flag))

    def share(self, document: Any = None) -> Any:
        """The first process' document, for all."""
        if self.world == 1:
            return document
        import torch.distributed as dist

        data = json.dumps(document).encode() if self.first else b""
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0)
        sent = _tensor(data) if self.first else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(sent, 0)
        return json.loads(bytes(sent.numpy()))

    # --------------------------------------------------------------------------------------------------------- tensors

    def share_tensors(self, named: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The first process' tensors, for all, where they were or in main memory."""
        if self.world == 1:
            return dict(named or {})
        import torch.distributed as dist

        own = dict(named or {}) if self.first else {}
        about = self.share([[n, list(t.shape), str(t.dtype).removeprefix("torch.")] for n, t in own.items()])
        found: dict[str, Tensor] = {}
        for name, shape, kind in about:
            value = own[name] if self.first else torch.empty(shape, dtype=getattr(torch, kind))
            data = value.detach().cpu().contiguous()
            if data.numel():
                dist.broadcast(data.view(-1).view(torch.uint8), 0)
            found[name] = value if self.first else data
        return found

    def same(self, named: Mapping[str, Tensor]) -> None:
        """Give every process the first one's values, in place."""
        if self.world > 1 and named:
            values = self.share_tensors(named)
            with torch.no_grad():
                for name, tensor in named.items():
                    tensor.copy_(values[name])

    # ----------------------------------------------------------------------------------------------------------- turns

    def ask_first(self, act: Callable[[], Any]) -> Any:
        """What the first process' act gives (as JSON can say it), for all. If it fails, the others end without a word."""
        if self.world == 1:
            return act()
        answer: Any = None
        if self.first:
            with self._telling():
                answer = act()
        return self._heard(self.share({"answer": answer}))["answer"]

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """First the first process, then the others: they find what it has written."""
        if self.world == 1:
            yield
            return
        if self.first:
            with self._telling():
                yield
        self._heard(self.share({}))
        if not self.first:
            yield

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(RuntimeError):  # they are gone already
                self.share({"failed": True})
            raise

    def _heard(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "failed" in answer and not self.first:
            raise SystemExit(1)
        return answer


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


@contextlib.contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun started; without it, this one alone."""
    if not all(name in os.environ for name in _STARTED) or os.environ["WORLD_SIZE"] == "1":
        yield Processes()
        return
    import torch.distributed as dist

    own = not dist.is_initialized()
    if own:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_PATIENCE)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if not any(text in str(error) for text in _GONE):
            raise
        print(f"process {dist.get_rank()}: another process has ended, so this one does", file=sys.stderr, flush=True)
        raise SystemExit(1) from None
    except BaseException:  # the others may be elsewhere: the group ends with the process
        time.sleep(_QUIET)
        raise
    if own:
        dist.barrier()
        time.sleep(_QUIET)
        dist.destroy_process_group()
