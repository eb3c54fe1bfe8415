"""Select the gradient synchronization for the phases of a run."""

from __future__ import annotations

from weft.core.contracts import Sync
from weft.learning.all_reduce import AllReduce
from weft.learning.ddp import DDP
from weft.learning.fsdp import FSDP
from weft.learning.gradient import Gradient
from weft.learning.network import Network, match_globs
from weft.learning.sync import NoSync


def choose_sync(learning: Gradient, network: Network, world: int) -> Sync:
    """Return the method of the recipe, or the fastest that is possible. Raises ValueError for one that is not."""
    if world == 1:
        return NoSync()
    trained = [name for phase in learning.phases for name in match_globs(network.parameters(), phase.train)]
    shared = sorted({name for name in trained if trained.count(name) > 1}) if len(learning.phases) > 1 else []
    sync = learning.sync() if learning.sync else AllReduce() if shared else DDP()
    if shared and isinstance(sync, DDP):
        raise ValueError(
            f"sync: ddp requires that phases train different parameters, but {len(shared)} are trained by several phases "
            f"({shared[0]}, ...); use sync: all-reduce"
        )
    if isinstance(sync, FSDP) and (len(learning.phases) > 1 or learning.compile):
        problem = "several phases" if len(learning.phases) > 1 else "compile: true"
        raise ValueError(f"sync: fsdp does not support {problem}; use sync: ddp or all-reduce")
    return sync
