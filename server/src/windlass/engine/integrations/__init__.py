"""The places at which our modules enter the engine, and the record of what a release has there."""
