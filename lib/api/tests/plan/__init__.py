"""A package, so that pytest does not name these tests `operator.…`, which is a module of Python's own."""
