"""Model directories and weight files, read within bounds. The only package that opens a model's files."""
