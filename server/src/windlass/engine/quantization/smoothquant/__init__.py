"""SmoothQuant: INT8 weights and activations, the strength of the smoothing searched for each layer.

Importing this package imports neither torch nor vLLM.
"""
