"""Runs inside a GPU image, on a machine without a GPU: says what is there, as one line of JSON.

Called by `windlass_testbed.gpu_image_checks`, which judges it. Words: the packages of which every module is imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import pkgutil
import re
import sys
from pathlib import Path

LIST = Path("/opt/windlass/sbom.cdx.json")
PLUGINS = "vllm.general_plugins"


def bare(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parts() -> dict[str, list[str]]:
    """Distributions that the list of parts lacks, and parts of it that are not installed."""
    document = json.loads(LIST.read_text())
    listed = {f"{bare(row['name'])} {row.get('version')}" for row in document["components"]}
    found = {f"{bare(one.metadata['Name'])} {one.version}" for one in importlib.metadata.distributions()}
    return {"unlisted": sorted(found - listed), "absent": sorted(listed - found), "parts": sorted(listed)}


def imported(package: str) -> dict[str, str]:
    """Every module of a package, imported: its name, and why it did not load where it did not."""
    found = importlib.import_module(package)
    names = [package, *(one.name for one in pkgutil.walk_packages(found.__path__, f"{package}."))]
    return {name: _error(name) for name in names if not name.endswith("__main__")}


def _error(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def plugins() -> dict[str, str]:
    """The engine's plug-ins of ours, loaded and called as the engine does it; none where vLLM is not there."""
    if not importlib.util.find_spec("vllm"):
        return {}
    found = importlib.metadata.entry_points(group=PLUGINS)
    return {one.name: _called(one) for one in found if one.name.startswith("windlass")}


def _called(entry: importlib.metadata.EntryPoint) -> str:
    try:
        entry.load()()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def kernels_for() -> list[str]:
    """The compute capabilities that torch holds machine code for."""
    import torch

    return str(torch._C._cuda_getArchFlags()).split()


def core() -> dict[str, object]:
    """The file of the lookahead core, and the newest version of the C++ library that it asks for; empty without one."""
    if not importlib.util.find_spec("windlass_lookahead"):
        return {}
    file = Path(importlib.import_module("windlass_lookahead._core").__file__ or "")
    asked = [int(number) for number in re.findall(rb"GLIBCXX_3\.4\.(\d+)", file.read_bytes())]
    return {"file": file.name, "glibcxx": max(asked, default=0)}


def writable() -> list[str]:
    """Folders of the image that this user could write into."""
    return [place for place in ("/", "/opt/windlass", "/usr", "/etc") if os.access(place, os.W_OK)]


def main() -> None:
    """Print what is there."""
    listed = parts()  # first: modules that are imported may add folders of their own to the path
    modules = {name: error for package in sys.argv[1:] for name, error in imported(package).items()}
    seen = {
        "user": os.getuid(),
        "writable": writable(),
        **listed,
        "modules": len(modules),
        "broken": {name: error for name, error in modules.items() if error},
        "plugins": plugins(),
        "kernels": kernels_for(),
        "core": core(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
