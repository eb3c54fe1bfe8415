"""Image networks: a file per family, with its sizes and its declaration for published files."""
