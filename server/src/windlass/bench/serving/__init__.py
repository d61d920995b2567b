"""`windlass bench serve`: vLLM's load generator against a server, with the engine's counters around it and a report."""
