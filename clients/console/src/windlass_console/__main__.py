"""`python -m windlass_console`."""

from windlass_console.cli import main

raise SystemExit(main())
