"""Model facts, the memory formula and GPU advice: one set of numbers for the operator and the server.

Standard library only, no I/O outside `checkpoint.py`.
"""
