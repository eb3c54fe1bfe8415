"""Metrics and protocols of latent-variable text models."""

from weft.systems.latent_text.evaluate.baselines import constant, copied, drawn, medoid, most_frequent, retrieved
from weft.systems.latent_text.evaluate.conditional import Written, judge_generation, judge_transfer, table
from weft.systems.latent_text.evaluate.estimators import (
    MutualInformation,
    active_units,
    elbo,
    importance_weighted,
    kl,
    log_density,
    mutual_information,
)
from weft.systems.latent_text.evaluate.latent_space import LatentSpaceMetric
from weft.systems.latent_text.evaluate.oracle import Oracle, OracleAccuracy, shared_texts
from weft.systems.latent_text.evaluate.samples import PriorSamples

__all__ = [
    "LatentSpaceMetric",
    "MutualInformation",
    "Oracle",
    "OracleAccuracy",
    "PriorSamples",
    "Written",
    "active_units",
    "constant",
    "copied",
    "drawn",
    "elbo",
    "importance_weighted",
    "judge_generation",
    "judge_transfer",
    "kl",
    "log_density",
    "medoid",
    "most_frequent",
    "mutual_information",
    "retrieved",
    "shared_texts",
    "table",
]
