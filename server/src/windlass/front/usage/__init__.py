"""What each key used: read from the engine's answers and counted."""
