"""The lookahead cache inside the engine: an integration for vLLM on CPUs, one for GPUs, and the parts that both share.

`launch.lookahead` decides whether it runs and with which arguments; `settings` travels from there into the engine's
processes. `vllm_cpu` and `vllm_gpu` are the integrations. The cache and the speculation policy are
`windlass_lookahead`,
which imports no engine.
"""
