"""A pass over the engine's graph: what is in front of a product of ours, a norm or a gated SiLU, goes into it.

vLLM runs it as Inductor's `post_grad_custom_post_pass`, before its own operators of norms are lowered. Then all kernels
from an attention's output to the next attention are ours, and each begins while the one in front ends.
"""

from __future__ import annotations

import inspect

from torch import fx
from vllm.compilation.passes.inductor_pass import InductorPass
from vllm.config import VllmConfig
from vllm.platforms import current_platform

from windlass.engine.quantization import fuse_nodes, product
from windlass.engine.quantization.fp8 import product as fp8_product


def enable(config: VllmConfig) -> None:
    """For the graphs that are compiled from now on; a pass that somebody else has put there stays."""
    config.compilation_config.inductor_compile_config.setdefault(current_platform.pass_key, FusePass())


class FusePass(InductorPass):  # type: ignore[misc]  # the engine has no types here
    """Idempotent, and without a state."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite the graph in place."""
        fuse_nodes.fuse(graph)

    def uuid(self) -> str:
        """Of the compile cache: another rewriting or another operator is another graph."""
        return str(InductorPass.hash_source(*(inspect.getsource(part) for part in _PARTS)))


_PARTS = fuse_nodes, product, fp8_product, FusePass
