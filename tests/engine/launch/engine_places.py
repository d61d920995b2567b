"""Run by the engine's Python: prints behind RESULT what the engine has at each place where our plug-ins enter it."""

import json

from windlass.engine.integrations import release
from windlass.engine.integrations.points import points, signatures

folder = release.installed()
if folder is None:
    raise SystemExit("this Python has no vLLM")
print("RESULT " + json.dumps(signatures(points(release.sources()), release.reader(folder))))
