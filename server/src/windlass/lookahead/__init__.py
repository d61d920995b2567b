"""The lookahead cache inside the engine: one module a door of vLLM, and what both doors share.

`launch.lookahead` decides whether it runs and by which words; `settings` travels from there into the engine's
processes. `on_host` is the door for CPUs, `on_device` that for GPUs. The cache itself is `windlass_lookahead`, which
knows no engine.
"""
