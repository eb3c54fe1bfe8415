"""``python -m weft``."""

from weft.cli.app import main

main()
