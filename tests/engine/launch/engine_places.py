"""Run by the engine's Python: prints behind RESULT what the engine has at each place where our plug-ins enter it."""

import json

from windlass.doctor import engine
from windlass.doctor.integrations import points, signatures

folder = engine.installed()
if folder is None:
    raise SystemExit("this Python has no vLLM")
print("RESULT " + json.dumps(signatures(points(engine.sources()), engine.reader(folder))))
