"""The commands, one module for each group. They import heavy packages inside their functions only."""
