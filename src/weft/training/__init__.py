"""Training of a run: trainer, run folder, checkpoints, resources, dry run."""
