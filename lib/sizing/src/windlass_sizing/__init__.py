"""Model facts, the memory formula, GPU advice and a start's settings: the same for the operator and the server.

Standard library only. Model files are read in `checkpoint.py`, `weights.py` and `source.py` alone; `settings.py` reads
the package's own `library.json`, once.
"""
