"""LEARNING: optimizers, schedules, the training loop, checkpoints and several processes."""

from weft.learning.active_phase import PhaseNeverRunsError
from weft.learning.all_reduce import AllReduce
from weft.learning.averaging import EMA, average
from weft.learning.checkpoint import Checkpoint, CheckpointError, Checkpoints, digest, read_document, read_weights, write_weights
from weft.learning.checkpoint import load as load_checkpoint
from weft.learning.constraints import ClipWeights
from weft.learning.ddp import DDP
from weft.learning.fsdp import FSDP
from weft.learning.gradient import Gradient
from weft.learning.loop import TrainingLoop
from weft.learning.network import Network, TrainingStep, match_weights, transfer_weights
from weft.learning.nonfinite import NonFiniteError
from weft.learning.optimizers import SGD, Adam, AdamW, RMSprop
from weft.learning.phase import Phase
from weft.learning.processes import Processes, join_processes
from weft.learning.progress import Interrupted, LoopCallbacks, Progress
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
    "LoopCallbacks",
    "Network",
    "NoamSchedule",
    "NonFiniteError",
    "Phase",
    "PhaseNeverRunsError",
    "Processes",
    "Progress",
    "RMSprop",
    "SlantedTriangularSchedule",
    "TrainingLoop",
    "TrainingStep",
    "average",
    "digest",
    "join_processes",
    "load_checkpoint",
    "match_weights",
    "read_document",
    "read_weights",
    "transfer_weights",
    "write_weights",
]
