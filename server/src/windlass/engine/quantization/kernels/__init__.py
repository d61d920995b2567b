"""Kernels for NVIDIA GPUs, compiled at run time by NVRTC, which torch brings along."""
