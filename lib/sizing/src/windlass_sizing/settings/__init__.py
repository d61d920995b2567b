"""The start command's settings as values: rows of flags, words of a command line and variables in, typed settings out.

The server starts its engine by them, the operator plans a pod by them. No file is opened here.
"""
