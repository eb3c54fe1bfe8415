"""LEARNING: how the weights move."""

from weft.learning.active_phase import NeverRuns
from weft.learning.all_reduce import AllReduce
from weft.learning.averaging import EMA, average
from weft.learning.checkpoint import Checkpoint, CheckpointError, Checkpoints, digest, read_weights, write_weights
from weft.learning.checkpoint import load as load_checkpoint
from weft.learning.constraints import ClipWeights
from weft.learning.ddp import DDP
from weft.learning.fsdp import FSDP
from weft.learning.gradient import Gradient
from weft.learning.loop import Loop
from weft.learning.network import Network, Step, take_weights, taken_from
from weft.learning.nonfinite import NonFinite
from weft.learning.optimizers import SGD, Adam, AdamW, RMSprop
from weft.learning.phase import Phase
from weft.learning.processes import Processes, joined
from weft.learning.progress import Interrupted, Progress, Watcher
from weft.learning.schedules import ConstantSchedule, CosineSchedule, LinearSchedule, NoamSchedule, SlantedTriangularSchedule

__all__ = [
    "DDP",
    "EMA",
    "FSDP",
    "SGD",
    "Adam",
    "AdamW",
    "AllReduce",
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "ClipWeights",
    "ConstantSchedule",
    "CosineSchedule",
    "Gradient",
    "Interrupted",
    "LinearSchedule",
    "Loop",
    "Network",
    "NeverRuns",
    "NoamSchedule",
    "NonFinite",
    "Phase",
    "Processes",
    "Progress",
    "RMSprop",
    "SlantedTriangularSchedule",
    "Step",
    "Watcher",
    "average",
    "digest",
    "joined",
    "load_checkpoint",
    "read_weights",
    "take_weights",
    "taken_from",
    "write_weights",
]
