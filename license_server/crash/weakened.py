"""The server with less durability than it has: `weakened.py LEVEL serve …`. Shows that `run.py` finds the losses."""

import sys

from windlass_license import cli, store

store.SYNCHRONOUS = sys.argv.pop(1)
sys.exit(cli.main())
