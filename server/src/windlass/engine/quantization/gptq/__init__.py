"""GPTQ with 4 bits: `solve` rounds one matrix, `packing` lays it out as GPTQ checkpoints do, `make` does a whole model.

The engine reads the result by its own `gptq`; nothing of this is imported where a model is served.
"""
