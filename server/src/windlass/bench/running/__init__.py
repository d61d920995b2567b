"""`windlass bench run`: servers with other settings, started, measured in turns and stopped, and one table of all."""
