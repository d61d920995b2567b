"""The command line. Imports nothing of the engine: every command but `run` answers in half a second."""
