"""Augmentation: random changes of training images, sampled from the generator of each example."""
