"""``weft new``: detect the task of data files and write a commented recipe for it."""

from weft.experiments.scaffold.detect import detect_data
from weft.experiments.scaffold.detected_data import DetectedData
from weft.experiments.scaffold.recipes import fine_tuning_recipe, scratch_recipe

__all__ = ["DetectedData", "detect_data", "fine_tuning_recipe", "scratch_recipe"]
