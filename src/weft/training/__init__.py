"""A run on disk: trainer, run folder, checkpoints, resources, dry run."""
