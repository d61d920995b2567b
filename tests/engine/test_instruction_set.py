"""An engine computes by the machine's instruction set, or by AVX2 alone with `make test-engine ISA=avx2`."""

import os
from pathlib import Path

from windlass_testbed import daemon
from windlass_testbed.instruction_sets import VARIABLE

from .conftest import Engine
from .processes.hang_checks import ENGINE_PROCESS

HAS_AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text() and os.environ.get(VARIABLE) != "avx2"
"""Of the machine, unless the run is limited."""
LIBRARIES = (
    "import pathlib\n"
    "(engine,) = [path.parent for path in pathlib.Path('/proc').glob('[0-9]*/comm')"
    f" if path.read_text().strip() == {ENGINE_PROCESS!r}]\n"
    "print(*sorted({name for line in (engine / 'maps').read_text().splitlines()"
    " if (name := line.rpartition('/')[2]).startswith('_C')}))\n"
)
CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability())"
CONVOLVES = (
    "import os\n"
    "os.environ['ONEDNN_VERBOSE'] = '1'\n"
    "import torch\n"
    "torch.conv1d(torch.ones(8, 64, 64), torch.ones(64, 64, 3))\n"
)


def test_a_running_engine_has_the_kernels_of_its_instruction_set(engine: Engine, short: str) -> None:
    found = daemon.docker(engine.paths, "exec", engine.container(short), "python3", "-c", LIBRARIES)
    assert ("_C_AVX2.abi3.so" in found.split()) != HAS_AVX512


def test_torch_computes_by_it(engine: Engine) -> None:
    """Its own kernels, and oneDNN."""
    assert engine.python("-c", CAPABILITY).split() == ["AVX512" if HAS_AVX512 else "AVX2"]
    log = engine.python("-c", CONVOLVES)
    assert ("isa:Intel AVX2" in log) != HAS_AVX512
    assert HAS_AVX512 or "avx512" not in log
