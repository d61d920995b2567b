"""This machine's Chromium for tests of pages: contexts that record errors, and the console as a user operates it."""
