"""Rules about files that no linter knows: `make check` runs `python -m tools.house`, which lists every offence at once.

Each module has rules of one subject. A rule takes the tree and yields offences; `__main__.py` has the table.
"""
