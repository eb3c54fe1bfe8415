"""Recurrent encoders and decoders."""
