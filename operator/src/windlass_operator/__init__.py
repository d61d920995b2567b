"""Windlass's operator: watches LLMServices and keeps a planned, honest serving workload for each."""

__version__ = "0.2.0"
