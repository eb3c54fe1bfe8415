"""Two small runs with a latent space, trained once: ``vae`` and the class-conditional ``conditional``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.commands import weft
from tests.systems.latent_text.small_runs import CONDITIONAL, EXAMPLES, TEXTS, VAE

from weft.learning import read_weights, write_weights
from weft.systems.latent_text.space import LatentSpace, open_latent
from weft.training import artifacts


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both runs and their data."""
    home = tmp_path_factory.mktemp("latent")
    (home / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (home / "blank.txt").write_text("\n \n")
    (home / "texts.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [("text", "label"), *EXAMPLES]))
    for label in ("good", "bad"):
        (home / f"{label}.txt").write_text("".join(f"{text}\n" for text, own in EXAMPLES if own == label))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "draw_curve", lambda *args: None)
        for name, recipe in (("vae", VAE), ("conditional", CONDITIONAL)):
            (home / f"{name}.yaml").write_text(recipe)
            answer = weft("train", home / f"{name}.yaml", "--run", home / name, "--quiet")
            assert answer.code == 0, answer.err
            randomize(home / name / "model.safetensors")
    return home


def randomize(file: Path) -> None:
    """Replace barely trained weights, which decode every latent code to the same text, by larger random ones.

    Log-variances of the posterior stay small: exp(logvar) overflows in float32 beyond 88, and the KL term with it.
    """
    weights = read_weights(file)
    torch.manual_seed(4)
    random = {key: torch.randn(tensor.shape) if tensor.ndim > 1 else tensor for key, tensor in weights.items()}
    _, logvar = random["to_posterior.weight"].chunk(2)
    logvar.mul_(0.01)
    write_weights(file, random)


@pytest.fixture(scope="session")
def space(home: Path) -> LatentSpace:
    """The latent space of the text VAE."""
    return open_latent(home / "vae")


@pytest.fixture(scope="session")
def conditional(home: Path) -> LatentSpace:
    """The latent space of the class-conditional text VAE."""
    return open_latent(home / "conditional")
