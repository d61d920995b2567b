"""The list of parts (SBOM) in each image: CycloneDX, and every installed Python distribution is on it."""

import json
import os
import subprocess

import pytest
from windlass_testbed import daemon, serving

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


@pytest.mark.parametrize(
    ("name", "least_parts"), [("operator", 20), ("license-server", 10), ("server-cpu", 100), ("deepspeed", 100)]
)
def test_every_distribution_is_listed(engine, name, least_parts):
    """What a scanner reads is what Python finds in the image; its label says where the list is."""
    image = serving.ensure(engine.paths, name)
    label = daemon.docker(engine.paths, "inspect", "--format", '{{index .Config.Labels "dev.windlass.sbom"}}', image)
    assert label.strip() == LIST
    command = ["/usr/bin/docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", READ]
    env = os.environ | daemon.docker_env(engine.paths)
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout)
    assert seen["format"] == "CycloneDX"
    assert seen["unlisted"] == []
    assert seen["parts"] >= least_parts
