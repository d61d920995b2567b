"""The front of a server: keys, limits, usage, and the bytes of requests and answers. No engine, no web framework."""
