"""Several runs: comparison, sweeps, recipes scaffolded from data files."""
