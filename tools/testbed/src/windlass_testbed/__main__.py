"""`python -m windlass_testbed`."""

import sys

from windlass_testbed.cli import main

sys.exit(main())
