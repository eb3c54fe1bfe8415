"""Open a run folder, or a pretrained model, for inference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from weft.core.contracts import Decodes
from weft.core.fields import Info
from weft.core.gguf import find_gguf
from weft.core.hub import PACKAGED
from weft.evaluate import EvaluationResult
from weft.evaluate.metrics_file import read_metrics
from weft.inference.origin import read_origin
from weft.inference.published import open_published, pair_of
from weft.inference.trained_run import TrainedRun
from weft.learning import read_weights
from weft.pretrained.empty_init import SkipInit
from weft.pretrained.generation_config import GENERATION_CONFIG, start_ids
from weft.recipe import RecipeError
from weft.training.build import StagePlan, build_network, choose_device, plans, plans_with_data
from weft.training.recipes import read_run
from weft.training.run import Run
from weft.training.run_folder import RunFolder
from weft.training.sources import load_codecs, main_source
from weft.training.threads import share_processors


def load(folder: str | Path, device: str = "auto", changes: Sequence[str] = ()) -> TrainedRun:
    """Open a trained run, or a pretrained model: ``weft.load("runs/demo").generate(["3 March 1999"])``.

    Args:
        folder: Run folder, folder in the Hugging Face layout, GGUF file, or name of a packaged model.
        device: Device to compute on; ``auto`` selects cuda, mps or cpu, in this order.
        changes: Assignments for reading other files in ``evaluate``: ``data.text=review``. Only options of the data other than
            its splits can be changed.
    """
    share_processors()
    _check_changes(changes)
    home = RunFolder(folder)
    if _is_pretrained(home, folder):
        return open_published(folder, device=device)
    if not home.path.is_dir():
        raise ValueError(f"there is no {'file' if home.path.suffix == '.gguf' else 'folder'} {home.path}")
    if not home.is_run():
        raise ValueError(f"{home.path} is not a run folder (it has no recipe.yaml)")
    if home.recipe_is_edited():
        raise ValueError(
            f"{home.recipe} was edited after it was written, so its options may not fit the weights; undo the edit, or if "
            "you are sure that it is right, remove the line with its SHA-256"
        )
    run = _read_recipe(home, changes)
    if not home.model.is_file():
        raise ValueError(f"{home.path} has no final weights yet; finish training with: weft train {home.path} --resume")
    return _restore(run, home, device)


def _check_changes(changes: Sequence[str]) -> None:
    for change in changes:
        if not re.match(r"(stages\.\d+\.)?data\.", change):
            raise ValueError(f"{change}: only options of the data can be changed on a trained run, such as data.text=review")
        if re.match(r"(stages\.\d+\.)?data\.([^=]*\.)?(train|valid|test)[.=]", change):
            raise ValueError(f"{change}: the splits of a trained run cannot be changed; pass other files as FILE or CLASS=FILE")


def _is_pretrained(home: RunFolder, name: str | Path) -> bool:
    """Return whether this names a pretrained model: a folder with config.json and no recipe, a GGUF file, or a packaged model."""
    if home.is_run():
        return False
    if not home.path.exists():
        return str(name) in PACKAGED
    return (home.path / "config.json").is_file() or find_gguf(home.path) is not None


def _read_recipe(home: RunFolder, changes: Sequence[str]) -> Run:
    try:
        run = read_run(home.recipe, files=False)
        if not changes:
            return run
        at = plans_with_data(plans(run))[-1].index  # the stage whose data the last stage uses
        own = [f"stages.{at - 1}.{change}" if at and change.startswith("data.") else change for change in changes]
        return read_run(home.recipe, own, files=False)
    except RecipeError as error:
        if plugins := home.plugins():
            raise ValueError(f"{error}\nthis run was trained with plug-ins: add --import {' --import '.join(plugins)}") from None
        raise


def _check_size(plan: StagePlan, infos: Mapping[str, Info], home: RunFolder) -> None:
    """Raise ValueError before memory is allocated for a network that cannot be in the file of weights: of somebody else, the
    recipe may ask for any size."""
    with SkipInit():
        network = build_network(plan, infos, 0, "meta", check=False)
    declared = sum(parameter.numel() for parameter in network.parameters().values())
    if declared > (size := home.model.stat().st_size):  # at least one byte each
        raise ValueError(
            f"{home.recipe}: the network has {declared:,} parameters, but {home.model.name} has only {size:,} bytes; "
            "the recipe or fields.json was changed after training"
        )


def _restore(run: Run, home: RunFolder, device: str) -> TrainedRun:
    """Build the network of the last stage and load its final weights."""
    stages = plans(run)
    source = plans_with_data(stages)[-1]
    codecs = load_codecs(source, source.codec_folder(home.path))
    infos, codec = {name: codec.info for name, codec in codecs.items()}, codecs[main_source(stages[-1])]
    _check_size(stages[-1], infos, home)
    with torch.random.fork_rng():  # the generators of the caller are left as they are
        network = build_network(stages[-1], infos, run.seed, check=False)  # checked when the run was trained
    network.load(read_weights(home.model))
    network.to(choose_device(device)).train(False)
    result = EvaluationResult.from_document(read_metrics(home.metrics)) if home.metrics.is_file() else None
    trained = TrainedRun(run, network.model, codec, network.objectives, folder=home.path, result=result, codecs=codecs)
    if home.origin.is_file():  # converted from a pretrained model: keep its conventions
        origin = read_origin(home.path)
        if Decodes in trained.model.provides():
            config = {**origin.config, **origin.files.get(GENERATION_CONFIG, {})}
            trained.start_ids = start_ids(trained.model, codec.info, config)
        trained.pair_format = pair_of(trained)
    return trained
