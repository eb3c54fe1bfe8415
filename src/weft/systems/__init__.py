"""Research systems, one package each. Each is a plug-in: it registers its parts and commands, and nothing imports it by name."""

PARTS = (
    "weft.systems.latent_text.cara",
    "weft.systems.latent_text.ctrl_gen",
    "weft.systems.latent_text.evaluate",
    "weft.systems.latent_text.optimus",
)
"""Modules that register parts. They are imported with the catalog."""

COMMANDS = ("weft.systems.latent_text.commands",)
"""Modules that register commands. They are imported whenever ``weft`` starts, without torch."""
