"""`windlass-operator inspect`: runs inside the inspect Job, on the mounted volume.

It ends with 0 whenever it could tell something, good or bad: a Job that fails is one that has nothing to say. So every
directory ends in facts or a reason: what takes too long, needs too much memory or meets a bug of ours, too.
"""

from __future__ import annotations

import logging
from pathlib import Path

from windlass_sizing import checkpoint
from windlass_sizing.checkpoint import CheckpointReport

from windlass_operator.inspection.bounds import OverdueError, limited

logger = logging.getLogger(__name__)
TERMINATION_LOG = Path("/dev/termination-log")
INSPECT_S = 300.0  # headers of some hundred files on a slow network volume take under a minute
MEMORY_BYTES = 384 * 1024**2  # of the container's 512 MiB (manifests/inspect_job.py)


def inspect(root: Path, path: str, source: str, termination_log: Path) -> str:
    """Look at the directory and leave the report where the kubelet picks it up; returns it too."""
    report = _report(root, path, source).to_json()
    termination_log.write_text(report, encoding="utf-8")
    return report


def _report(root: Path, path: str, source: str) -> CheckpointReport:
    try:
        with limited(INSPECT_S, MEMORY_BYTES):
            return checkpoint.inspect(root, path, source)
    except OverdueError as error:
        words = f'source.path "{path}": reading its files is {error}'
        return CheckpointReport(reason="InspectOverdue", message=words)
    except MemoryError:
        words = f'source.path "{path}": reading its files needs more than {MEMORY_BYTES // 1024**2} MiB of memory'
        return CheckpointReport(reason="ConfigImplausible", message=words)
    except Exception as error:  # the outermost place of this program: a bug of ours has a reason and a traceback, too
        logger.exception("the inspection failed")
        words = f'source.path "{path}": the inspection failed with {type(error).__name__}: {error}'
        return CheckpointReport(reason="InspectFailed", message=words)
