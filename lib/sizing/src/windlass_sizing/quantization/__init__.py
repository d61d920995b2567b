"""Quantization methods, what the pinned engine can run, and the decision between them. Pure."""
