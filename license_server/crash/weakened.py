"""The server with less durability than it has: `weakened.py LEVEL serve …`. Shows that `run.py` finds the losses."""

import sys

from windlass_license import cli
from windlass_license.storage import store

store.SYNCHRONOUS = sys.argv.pop(1)
sys.exit(cli.main())
