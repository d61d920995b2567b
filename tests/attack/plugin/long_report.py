"""A report of a service with many pods that write without an end; takes a minute.

Run it by name: `pytest tests/attack/plugin/long_report.py`.
"""

from __future__ import annotations

import tarfile

from api_objects import POD, cluster, items
from hostile_server import flood


def test_a_report_is_bounded(run, tmp_path):
    """Logs without an end, of more pods than a service has."""
    pods = [{**POD, "metadata": {"name": f"demo-{number}"}} for number in range(120)]
    log = flood(b"", b"y" * 1000 + b"\n" + b"x" * (1 << 19) + b"\n", 4)
    answers = cluster(**{"/namespaces/default/pods": items(*pods), "/log?": log})
    file = tmp_path / "report.tar.gz"
    ended = run(answers, "report", "demo", "--out", str(file), limit_s=150)
    assert (ended.why, ended.code) == ("", 0)
    with tarfile.open(file) as archive:
        assert sum(one.size for one in archive.getmembers()) < 20 << 20
        missing = archive.extractfile("report/missing.txt").read().decode()
    assert "the logs of demo-1" in missing
