"""The steps of a request through the guard, each with its own state and its own refusals; `guard` holds their order."""
