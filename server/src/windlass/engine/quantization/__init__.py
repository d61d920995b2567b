"""Online quantization: the methods by name, exact (de)quantizers, packing, GPU kernels and vLLM's plug-in.

Importing this package imports neither torch nor vLLM.
"""
