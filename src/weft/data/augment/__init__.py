"""Augmentation: random changes of training images, drawn from the generator of each example."""
