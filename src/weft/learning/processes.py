"""The processes of one run, and their communication: JSON and raw tensors, so that nothing is unpickled."""

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

_MESSAGE_BYTES = 1016
"""Bytes of a document that are sent in the first message; a longer document takes a second one."""
_TIMEOUT = timedelta(days=7)
"""The others wait while the first process evaluates. A process that died is noticed at once: its connections close."""
_RELEASE_SECONDS = 0.1
"""Time for gloo's threads to release the last tensors. They need the GIL for that, which ``destroy_process_group`` holds while it
waits for them."""
_EXIT_SECONDS = 3.0
"""Time for a failed process to end before the others do: launchers report the one that ends first, and end the others."""
_TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CONNECTION_ERRORS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused")


class Processes:
    """One of ``world`` processes that train together.

    Methods are collective operations, to be called by all processes in the same order, except ``is_main`` and ``select_device``.

    Args:
        rank: Index of this process.
        world: Number of processes.
    """

    def __init__(self, rank: int = 0, world: int = 1):
        self.rank, self.world = rank, world

    @property
    def is_main(self) -> bool:
        """Whether this is the first process, which writes files, evaluates and prints."""
        return self.rank == 0

    def select_device(self, device: torch.device) -> torch.device:
        """Return the GPU of this process, by its local rank; other devices are returned unchanged."""
        if device.type != "cuda" or self.world == 1:
            return device
        own = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(own)
        return own

    # ------------------------------------------------------------------------------------------------------- documents

    def gather(self, document: Any) -> list[Any]:
        """Return the JSON documents of all processes, by rank."""
        if self.world == 1:
            return [document]
        own = json.dumps(document).encode()
        found = self._exchange(own, _MESSAGE_BYTES)
        longest = max(length for length, _ in found)
        if longest > _MESSAGE_BYTES:
            found = self._exchange(own, longest)
        return [json.loads(data[:length]) for length, data in found]

    def _exchange(self, own: bytes, room: int) -> list[tuple[int, bytes]]:
        """Return the length of each process' message, and its first ``room`` bytes."""
        import torch.distributed as dist

        sent = _tensor(len(own).to_bytes(8, "little") + own[:room].ljust(room, b"\0"))
        received = [torch.empty_like(sent) for _ in range(self.world)]
        dist.all_gather(received, sent)
        raw = [bytes(tensor.numpy()) for tensor in received]
        return [(int.from_bytes(one[:8], "little"), one[8:]) for one in raw]

    def sum(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return sums over all processes by name, added in the order of ranks; a process may not have all names."""
        total: dict[str, float] = {}
        for of_one in self.gather(dict(values)):
            for name, value in of_one.items():
                total[name] = total.get(name, 0) + value
        return total

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        return any(self.gather(flag))

    def broadcast(self, document: Any = None) -> Any:
        """Return the JSON document of the first process in all of them."""
        if self.world == 1:
            return document
        import torch.distributed as dist

        data = json.dumps(document).encode() if self.is_main else b""
        length = torch.tensor([len(data)])
        dist.broadcast(length, 0)
        sent = _tensor(data) if self.is_main else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(sent, 0)
        return json.loads(bytes(sent.numpy()))

    # --------------------------------------------------------------------------------------------------------- tensors

    def broadcast_tensors(self, named: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the tensors of the first process in all of them: in the others, on the CPU."""
        if self.world == 1:
            return dict(named or {})
        import torch.distributed as dist

        own = dict(named or {}) if self.is_main else {}
        specs = self.broadcast([[n, list(t.shape), str(t.dtype).removeprefix("torch.")] for n, t in own.items()])
        found: dict[str, Tensor] = {}
        for name, shape, dtype in specs:
            value = own[name] if self.is_main else torch.empty(shape, dtype=getattr(torch, dtype))
            data = value.detach().cpu().contiguous()
            if data.numel():
                dist.broadcast(data.view(-1).view(torch.uint8), 0)
            found[name] = value if self.is_main else data
        return found

    def broadcast_into(self, named: Mapping[str, Tensor]) -> None:
        """Copy the values of the first process into the tensors of all of them, in place."""
        if self.world > 1 and named:
            values = self.broadcast_tensors(named)
            with torch.no_grad():
                for name, tensor in named.items():
                    tensor.copy_(values[name])

    # ---------------------------------------------------------------------------------------------------------- order

    def on_main(self, function: Callable[[], Any]) -> Any:
        """Call a function in the first process and return its result (a JSON value) in all. If it fails, the others exit."""
        if self.world == 1:
            return function()
        result: Any = None
        if self.is_main:
            with self._broadcast_failure():
                result = function()
        return self._exit_on_failure(self.broadcast({"result": result}))["result"]

    @contextlib.contextmanager
    def main_first(self) -> Iterator[None]:
        """A context that the first process runs first, so that the others find the files it has written."""
        if self.world == 1:
            yield
            return
        if self.is_main:
            with self._broadcast_failure():
                yield
        self._exit_on_failure(self.broadcast({}))
        if not self.is_main:
            yield

    @contextlib.contextmanager
    def _broadcast_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the others have exited already
                self.broadcast({"failed": True})
            raise

    def _exit_on_failure(self, message: dict[str, Any]) -> dict[str, Any]:
        if "failed" in message and not self.is_main:
            with contextlib.suppress(RuntimeError):
                self.broadcast()  # until the first process closes its connections
            time.sleep(_EXIT_SECONDS)
            raise SystemExit(1)
        return message


def _tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


@contextlib.contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that torchrun started; without torchrun, a single process."""
    if not all(name in os.environ for name in _TORCHRUN_VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        yield Processes()
        return
    import torch.distributed as dist

    own = not dist.is_initialized()
    if own:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_TIMEOUT)
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    except RuntimeError as error:
        if not any(text in str(error) for text in _CONNECTION_ERRORS):
            raise
        print(f"process {dist.get_rank()}: another process has exited, so this one exits too", file=sys.stderr, flush=True)
        time.sleep(_EXIT_SECONDS)
        raise SystemExit(1) from None
    except BaseException:  # the others may be at another point: the group ends with the process
        time.sleep(_RELEASE_SECONDS)
        raise
    if own:
        dist.barrier()
        time.sleep(_RELEASE_SECONDS)
        dist.destroy_process_group()
