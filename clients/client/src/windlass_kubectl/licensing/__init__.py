"""Parts of `kubectl windlass license`: the GPUs of the nodes, the issuer's program, the license server."""
