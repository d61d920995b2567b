"""The quantization methods that the resource accepts, by name, from the shared table of methods."""

from windlass_sizing.methods import ENGINES, METHODS, NAMES, OURS

OWN = NAMES
VLLM_OWN = ENGINES
QUANTIZATIONS = OWN + VLLM_OWN
ONLINE = OURS
"""They quantize plain weights."""
FLOAT16_ONLY = tuple(name for name in OURS if {*METHODS[name].dtypes, *METHODS[name].cpu_dtypes} == {"float16"})
"""They compute in float16 on every card and on the CPU."""
