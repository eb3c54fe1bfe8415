"""Published models: find, load, check and save their weights."""

from weft.pretrained.folder import PublishedModel
from weft.pretrained.load_weights import LoadReport
from weft.pretrained.model import PretrainedModel, load
from weft.pretrained.saving import save
from weft.pretrained.weights import pretrained

__all__ = ["LoadReport", "PretrainedModel", "PublishedModel", "load", "pretrained", "save"]
