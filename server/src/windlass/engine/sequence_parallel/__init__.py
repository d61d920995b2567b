"""Prefill over several GPUs: each rank computes a part of a long prompt's rows, by vLLM's prefill context parallelism.

The engine splits the batch and restores its order. Ours are the exchange of keys and values for grouped-query and
multi-head attention, and the rule that says which requests are split.
"""
