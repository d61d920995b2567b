"""`make faults`: every fault of the corpus, on the kind cluster and on a real API server, and a table of what was said.

Prints a row a fault as it ends, writes docs/reference/faults.md when every fault was run, and ends with 1 when a word
is wrong. `--only ID …` runs some, `--where kubelet|apiserver` one half, `--json FILE` keeps the rows for programs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import corpus
import kubelet_faults
import scripted_faults
from api_bed import api_bed
from fault_bed import Fault, Result
from kind_bed import kind_bed

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
KUBELET, API_SERVER = "kubelet", "API server"
Rows = list[tuple[str, Result]]


def main(words: Sequence[str]) -> int:
    """Run what was asked for; the exit code."""
    wish = _parser().parse_args(words)
    rows: Rows = []
    print(f"{'fault':18} {'reason':24} {'apply':>6} {'fault':>6}", flush=True)
    if wish.where in ("all", "kubelet"):
        rows += [(KUBELET, row) for row in on_kind(_chosen(kubelet_faults.FAULTS, wish.only), wish.parallel)]
    if wish.where in ("all", "apiserver"):
        rows += [(API_SERVER, row) for row in on_api_server(_chosen(scripted_faults.FAULTS, wish.only), wish.parallel)]
    print(corpus.summary([row for _, row in rows]))
    if wish.json:
        wish.json.write_text(json.dumps([row.to_dict(where) for where, row in rows], indent=1))
    if wish.where == "all" and not wish.only:
        PAGE.write_text(corpus.page(rows, _measured(wish.parallel)))
    return 0 if rows and all(row.ok for _, row in rows) else 1


def _measured(parallel: int) -> str:
    load, day = os.getloadavg()[2], date.today().isoformat()
    return f"Measured on {day} on {os.cpu_count()} processors at a load of {load:.0f}, {parallel} faults at a time."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="ID")
    parser.add_argument("--where", choices=("all", "kubelet", "apiserver"), default="all")
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument("--json", type=Path)
    return parser


def _chosen(faults: Sequence[Fault], only: Sequence[str]) -> list[Fault]:
    return [fault for fault in faults if not only or fault.id in only]


def on_kind(faults: Sequence[Fault], parallel: int) -> list[Result]:
    """On the cluster, with the operator that its chart installs; brought up when it is not there."""
    if not faults:
        return []
    from windlass_testbed import cluster, daemon, demo, deploy, machine
    from windlass_testbed.paths import paths

    where = paths()
    machine.ensure_packages()
    ours = not daemon.answers(where)
    try:
        cluster.check(where)
        deployed = deploy.bring_up(where)
        deploy.install_charts(where, deployed)
        with kind_bed(where, deployed["operator"], "faults") as bed:
            return corpus.run(bed, faults, parallel)
    finally:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            demo.delete(where)


def on_api_server(faults: Sequence[Fault], parallel: int) -> list[Result]:
    """On an API server of its own, with the operator in this process."""
    if not faults:
        return []
    with tempfile.TemporaryDirectory() as folder, api_bed(Path(folder)) as bed:
        return corpus.run(bed, faults, parallel)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
