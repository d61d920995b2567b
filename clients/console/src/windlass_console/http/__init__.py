"""The HTTP of the console: routes, streams, checks of every request, and the files of the pages."""
