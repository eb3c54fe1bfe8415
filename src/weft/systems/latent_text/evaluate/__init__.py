"""Metrics and evaluation protocols of latent-variable text models."""

from weft.systems.latent_text.evaluate.baselines import (
    constant_baseline,
    copy_baseline,
    medoid,
    most_frequent,
    retrieval_baseline,
    sample_baseline,
)
from weft.systems.latent_text.evaluate.conditional import GenerationMetrics, evaluate_generation, evaluate_transfer, table
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
from weft.systems.latent_text.evaluate.oracle import Oracle, OracleAccuracy, count_shared_texts
from weft.systems.latent_text.evaluate.samples import PriorSamples

__all__ = [
    "GenerationMetrics",
    "LatentSpaceMetric",
    "MutualInformation",
    "Oracle",
    "OracleAccuracy",
    "PriorSamples",
    "active_units",
    "constant_baseline",
    "copy_baseline",
    "count_shared_texts",
    "elbo",
    "evaluate_generation",
    "evaluate_transfer",
    "importance_weighted",
    "kl",
    "log_density",
    "medoid",
    "most_frequent",
    "mutual_information",
    "retrieval_baseline",
    "sample_baseline",
    "table",
]
