"""The engine's grammar engines, one for each request that needs it."""
