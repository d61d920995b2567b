"""The layers of a built image: their sizes, and our own as the tars that they are, for a machine without Docker."""

import gzip
import json
from pathlib import Path

from windlass_testbed import images, loading
from windlass_testbed.daemon import docker
from windlass_testbed.paths import Paths

# Where the layer of our packages is told from the others.
OURS = "opt/windlass/lib/python3*/site-packages/windlass"


def sizes(paths: Paths, tag: str) -> list[str]:
    """Return a line for each layer that holds anything, the newest first: its size and what made it."""
    lines = docker(paths, "history", "--no-trunc", "--format", "{{json .}}", tag).splitlines()
    rows = [json.loads(line) for line in lines]
    return [f"{row['Size']:>8}  {_command(row['CreatedBy'])}" for row in rows if row["Size"] != "0B"]


def _command(text: str) -> str:
    return " ".join(text.rpartition("/bin/sh -c ")[2].split())[:100]


def export(paths: Paths, name: str, target: Path) -> list[Path]:
    """Write the layer of an image that holds our packages, exactly as it is, and the image's variables; the files."""
    image = images.IMAGE[name]
    top, base = (json.loads(docker(paths, "image", "inspect", images.tag_of(one)))[0] for one in (name, image.base))
    folders = [Path(folder) for folder in loading.new_layers(top, len(base["RootFS"]["Layers"]))]
    ours = next(folder for folder in folders if any(folder.glob(OURS)))
    target.mkdir(parents=True, exist_ok=True)
    layer, variables = target / f"{name}.tar.gz", target / f"{name}.env.json"
    layer.write_bytes(gzip.compress(loading.layer_tar(ours), mtime=0))
    variables.write_text(json.dumps(dict(one.split("=", 1) for one in top["Config"]["Env"]), indent=1) + "\n")
    return [layer, variables]
