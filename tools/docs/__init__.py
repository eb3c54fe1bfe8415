"""Generators of the documentation site. MkDocs runs them through ``tools/docs/hooks.py``; ``make docs`` runs MkDocs."""
