"""The executor of a CPU engine whose threads are bound to no cores: the engine's process computes, as with one GPU.

On a CPU vLLM 0.32 has a worker process for one rank, too, so that it starts with the threads of its cores. Where
`VLLM_CPU_OMP_THREADS_BIND` is `nobind` there are none to bind. `launch.cpu` names this class.
"""

from vllm.v1.executor.uniproc_executor import UniProcExecutor

__all__ = ["UniProcExecutor"]
