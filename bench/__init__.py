"""Measurements: how fast, and the MICRO 2009 paper's own numbers on this repository's programs."""
