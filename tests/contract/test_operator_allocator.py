"""The operator's chart sets the C allocator so that the memory of closed connections leaves the process."""

import os
import re
import subprocess
import sys
from pathlib import Path

TEMPLATE = Path(__file__).parents[2] / "charts" / "windlass" / "templates" / "deployment.yaml"
# A page of a list comes and goes; then 64 buffers as of TLS connections, with small things between them, go again.
PROGRAM = """
import os
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
page = bytearray(8 * 2**20)
del page
before = resident()
buffers, kept = [], []
for _ in range(64):
    buffers.append(bytearray(256 * 1024))
    kept.append(bytes(4096))
del buffers
print((resident() - before) // 2**20)
"""


def resident_mib(settings):
    """MiB that are left of 16 MiB of buffers."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | settings
    return int(subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, capture_output=True).stdout)


def test_buffers_of_closed_connections_leave_the_process():
    settings = dict(re.findall(r'- name: (MALLOC_\w+)\n +value: "(\w+)"', TEMPLATE.read_text()))
    assert {"MALLOC_MMAP_THRESHOLD_"} == settings.keys()
    assert (resident_mib(settings), resident_mib({}) > 8) == (0, True)
