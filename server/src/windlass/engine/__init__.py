"""Integrations with vLLM, and the files that vLLM starts from. Every import of vLLM in a server is below here."""
