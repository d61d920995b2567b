"""`windlass-operator inspect`: runs inside the inspect Job, on the mounted volume.

It ends with 0 whenever it could tell something, good or bad: a Job that fails is one that has nothing to say. So every
directory ends in facts or a reason: what takes too long, needs too much memory or meets a bug of ours, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from windlass_sizing.files import checkpoint
from windlass_sizing.files.adapters import Beside, Named
from windlass_sizing.files.checkpoint import ALONE, CheckpointReport
from windlass_sizing.files.directory import Directory, spoken

from windlass_operator.inspection.bounds import OverdueError, limited
from windlass_operator.manifests.sources import ADAPTER, BASE, DRAFT

logger = logging.getLogger(__name__)
TERMINATION_LOG = Path("/dev/termination-log")
INSPECT_S = 300.0  # headers of some hundred files on a slow network volume take under a minute
MEMORY_BYTES = 384 * 1024**2  # of the container's 512 MiB (manifests/inspect_job.py)


def inspect(root: Path, path: str, source: str, termination_log: Path, beside: Beside = ALONE) -> str:
    """Look at the directory and leave the report where the kubelet picks it up; returns it too."""
    report = _report(root, path, source, beside).to_json()
    termination_log.write_text(report, encoding="utf-8")
    return report


def read_beside(text: str, *, merge: bool) -> Beside:
    """What the Job's manifest names beside the model's directory; ValueError when it is no such text."""
    rows = json.loads(text) if text else []
    try:
        by_role = {row["role"]: _directory(row) for row in rows if row["role"] != ADAPTER}
        adapters = tuple(
            Named(row["name"], row["path"], bool(row.get("merge")), _directory(row) if "root" in row else None)
            for row in rows
            if row["role"] == ADAPTER
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"--beside: {error!r}") from error
    return Beside(by_role.get(BASE), by_role.get(DRAFT), adapters, merge)


def _directory(row: Mapping[str, str]) -> Directory:
    return Directory(Path(row["root"]), row["path"], spoken(row["source"]), row["field"])


def _report(root: Path, path: str, source: str, beside: Beside) -> CheckpointReport:
    try:
        with limited(INSPECT_S, MEMORY_BYTES):
            return checkpoint.inspect(root, path, source, beside)
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
