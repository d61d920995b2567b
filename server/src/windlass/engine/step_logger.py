"""vLLM's entry point `vllm.stat_logger_plugins`: tells the rule each step of an engine, in the API's process."""

from __future__ import annotations

from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from windlass.front.progress import rule


class StepLogger(StatLoggerBase):  # type: ignore[misc] # vLLM has no types here
    """One for each engine behind the port; all report to one place."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:  # noqa: ANN401 - vLLM's own
        """Nothing is kept."""

    def record(self, scheduler_stats: Any, *_: object, **__: object) -> None:  # noqa: ANN401 - vLLM's own
        """A step ended; vLLM also calls this for outputs that are none of a step's."""
        if scheduler_stats is not None:
            rule.OF_THIS_PROCESS.step_ended()

    def log_engine_initialized(self) -> None:
        """Nothing."""
