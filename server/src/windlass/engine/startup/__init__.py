"""A quick start: weights read ahead of the engine, and the start's phases with their seconds."""
