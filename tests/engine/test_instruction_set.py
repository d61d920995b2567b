"""With `make test-engine ISA=avx2` an engine computes as on a processor that has AVX2 and no AVX-512."""

import os

import pytest
from windlass_testbed import daemon
from windlass_testbed.instruction_sets import VARIABLE

from .conftest import Engine
from .processes.hang_checks import ENGINE_PROCESS

pytestmark = pytest.mark.skipif(os.environ.get(VARIABLE) != "avx2", reason="the machine's own instruction set")
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


def test_a_running_engine_has_the_kernels_of_avx2(engine: Engine, short: str) -> None:
    found = daemon.docker(engine.paths, "exec", engine.container(short), "python3", "-c", LIBRARIES)
    assert [name for name in found.split() if "abi3" in name] == ["_C_AVX2.abi3.so"]


def test_torch_computes_with_avx2(engine: Engine) -> None:
    """Its own kernels, and oneDNN."""
    assert engine.python("-c", CAPABILITY).split() == ["AVX2"]
    log = engine.python("-c", CONVOLVES)
    assert "isa:Intel AVX2" in log
    assert "avx512" not in log
