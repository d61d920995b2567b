"""`--quantization fp8`: FP8 weights as vLLM makes them, multiplied with few rows of activations as they are.

Importing this package imports neither torch nor vLLM.
"""
