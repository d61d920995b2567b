"""What full batches take beside the engine's own profile: measured before the KV cache is sized, and kept free."""
