"""Windlass's second serving image: a model in DeepSpeed inference behind the OpenAI chat API."""

__version__ = "0.2.0"
