"""Whether the engine's steps go on: counted by a plug-in in the engine's API process, judged by the guard beside it."""
