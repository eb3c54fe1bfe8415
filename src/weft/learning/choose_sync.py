"""Which way of exchanging gradients fits the phases."""

from __future__ import annotations

from weft.core.contracts import Sync
from weft.learning.all_reduce import AllReduce
from weft.learning.ddp import DDP
from weft.learning.fsdp import FSDP
from weft.learning.gradient import Gradient
from weft.learning.network import Network, picked
from weft.learning.sync import Alone


def choose_sync(learning: Gradient, network: Network, world: int) -> Sync:
    """The one that the recipe names, or the fastest that fits. Raises ValueError where the named one does not."""
    if world == 1:
        return Alone()
    trained = [name for phase in learning.phases for name in picked(network.parameters(), phase.train)]
    shared = sorted({name for name in trained if trained.count(name) > 1}) if len(learning.phases) > 1 else []
    sync = learning.sync() if learning.sync else AllReduce() if shared else DDP()
    if shared and isinstance(sync, DDP):
        raise ValueError(
            f"sync: ddp wants phases that train different parameters, but {len(shared)} are trained by several "
            f"({shared[0]}, ...): use sync: all-reduce"
        )
    if isinstance(sync, FSDP) and (len(learning.phases) > 1 or learning.compile):
        what = "in one phase" if len(learning.phases) > 1 else "without compile"
        raise ValueError(f"sync: fsdp is for learning {what}: use sync: ddp or all-reduce")
    return sync
