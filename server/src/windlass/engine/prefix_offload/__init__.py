"""Keeps evicted blocks of the prefix cache in host memory, by vLLM's offloading connector.

The connector, its transfers and its eviction policy are the engine's. Ours is how a block lies in memory, how large a
piece is kept together, when a load that never hits stops paying for copies, and what is counted.
"""
