"""The list of parts (SBOM) in an image of ours, held against the Python distributions that the image has."""

import json
import os
import subprocess
from dataclasses import dataclass

from windlass_testbed import daemon, serving
from windlass_testbed.paths import Paths

LIST = "/opt/windlass/sbom.cdx.json"
READ = f"""
import importlib.metadata as m, json, re
parts = json.load(open({LIST!r}))
bare = lambda name: re.sub(r"[-_.]+", "-", name).lower()
own = parts["metadata"].get("component")
listed = {{(bare(row["name"]), row.get("version")) for row in [*parts["components"], *([own] if own else [])]}}
found = {{(bare(d.metadata["Name"]), d.version) for d in m.distributions() if d.metadata["Name"]}}
seen = {{"format": parts["bomFormat"], "parts": len(parts["components"]), "unlisted": sorted(found - listed)}}
print(json.dumps(seen))
"""


@dataclass(frozen=True, slots=True)
class PartsList:
    """An image's list, and the distributions that Python finds there and the list does not have."""

    label: str
    """The place of the list, as the image's label names it."""
    format: str
    parts: int
    unlisted: tuple[str, ...]


def parts_list(paths: Paths, name: str) -> PartsList:
    """Return the list of an image, which is built when absent."""
    image = serving.ensure(paths, name)
    label = daemon.docker(paths, "inspect", "--format", '{{index .Config.Labels "dev.windlass.sbom"}}', image)
    command = ["/usr/bin/docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", READ]
    env = os.environ | daemon.docker_env(paths)
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)
    return PartsList(label.strip(), seen["format"], seen["parts"], tuple(" ".join(row) for row in seen["unlisted"]))
