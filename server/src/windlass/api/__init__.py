"""The safety and pleasantness in front of the engine's own HTTP server: keys, ranges, names, limits, clear errors."""
