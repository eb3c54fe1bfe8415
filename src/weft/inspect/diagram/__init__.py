"""The parts of an architecture figure: trace a forward pass, build blocks, compute the layout, write SVG."""
