"""How fast a planned model will be: bytes and operations of a step, and a table fitted to measurements. Pure."""
