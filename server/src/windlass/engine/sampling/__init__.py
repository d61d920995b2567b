"""Sampling rules that the engine does not have. `door` decides whether they are there; the engine loads the rest."""
