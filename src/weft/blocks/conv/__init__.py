"""Convolutional encoders."""
