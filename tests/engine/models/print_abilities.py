"""In the serving image: what the engine says of itself, and its own verdict on each method, card and number format."""

import itertools
import json
import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

import engine_abilities

CAPABILITIES = (70, 75, 80, 86, 89, 90, 100, 120)
DTYPES = ("float16", "bfloat16", "float32")


def verdicts() -> list[tuple[str, int, str, bool]]:
    """By the engine's classes, as its `_get_quantization_config` compares them."""
    import torch
    from vllm.model_executor.layers.quantization import QuantizationMethods, get_quantization_config

    found = []
    for name, capability, dtype in itertools.product(QuantizationMethods.__args__, CAPABILITIES, DTYPES):
        config = object.__new__(get_quantization_config(name))
        reaches = capability >= config.get_min_capability()
        computes = getattr(torch, dtype) in type(config).get_supported_act_dtypes.__get__(config)()
        found.append((name, capability, dtype, reaches and computes and has(capability, getattr(torch, dtype))))
    return found


def has(capability: int, dtype: object) -> bool:
    """Whether the engine's platform takes the number format on a card of this compute capability."""
    # The kernels for cards: the platform's module imports them, its question about a number format needs none.
    sys.modules.setdefault("vllm._C_stable_libtorch", ModuleType("vllm._C_stable_libtorch"))
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    class Cards(CudaPlatformBase):  # type: ignore[misc]  # the engine has no types here
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> DeviceCapability:
            return DeviceCapability(*divmod(capability, 10))

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "card"

    try:
        Cards.check_if_supports_dtype(dtype)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    print("RESULT " + json.dumps({"own": engine_abilities.engines_own(), "verdicts": verdicts()}))
