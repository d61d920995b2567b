"""From what the user said to the engine's command line. Pure, but for `probe`, which looks at the machine."""
