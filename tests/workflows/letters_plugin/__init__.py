"""A plug-in package, as a user would write it: parts, a recipe and a command. Nothing in weft knows it."""
