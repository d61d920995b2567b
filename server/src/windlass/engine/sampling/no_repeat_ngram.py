"""The class that `--logits-processors` names. The engine has two runners and picks one after reading its flags.

Each runner takes only a class of its own interface, so this one is of both, and what it makes is the right one: a
runner tells which it is by what it hands over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.sample.logits_processor import LogitsProcessor as HostProcessor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as DeviceProcessor

from windlass.engine.sampling.ngrams import size_of

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams

HOST_ARGUMENTS = 2
"""The host's runner hands over a device and whether memory is pinned, the other its requests' state."""


class NoRepeatNgram(HostProcessor, DeviceProcessor):  # type: ignore[misc]  # the engine has no types here
    """Never made itself: calling it gives an `OnHost` or an `OnDevice`."""

    def __new__(cls, vllm_config: VllmConfig, *runner: Any) -> HostProcessor | DeviceProcessor:  # noqa: ANN401 - as the runner has it
        """The processor for the runner that asks."""
        if len(runner) == HOST_ARGUMENTS:
            from windlass.engine.sampling.on_host import OnHost

            return OnHost(vllm_config, *runner)
        from windlass.engine.sampling.on_device import OnDevice

        return OnDevice(vllm_config, *runner)

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Refuse what is no size, before the request reaches the engine."""
        size_of(sampling_params)
