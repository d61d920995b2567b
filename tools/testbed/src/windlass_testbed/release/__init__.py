"""`make release` and `make demo-release`: what a commit becomes for those who install it elsewhere.

Called by the command line alone. `version`, `changelog`, `provenance`, `listing` and the functions of `archive` are
functions of values; `make` runs the steps in order, each of which writes into one folder below `dist/`.
"""
