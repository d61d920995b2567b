"""The suites of `make test`: a suite whose input has passed on this machine is skipped (`CONTRIBUTING.md`)."""
