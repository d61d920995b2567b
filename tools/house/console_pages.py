"""The console's pages hold nothing that nothing uses: no export that no module imports, no text that no page shows."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from .tree import Offence, Tree, line_of

PAGES = "clients/console/src/windlass_console/pages"
TABLES = (f"{PAGES}/text/en.js", f"{PAGES}/text/en_status.js")
EXPORT = re.compile(r"^export (?:async )?(?:const|let|function\*?|class) (\w+)", re.M)
IMPORT = re.compile(r"import \{([^}]*)\} from \"([^\"]+)\"")
LATER = re.compile(r"import\(\"([^\"]+)\"\)\.then\(\((\w+)\) => \2\.(\w+)\)")
KEY = re.compile(r"^  \"([^\"]+)\":", re.M)
START_OF_KEY = re.compile(r"`([\w.]+)\$\{")  # `reason.${word}`: every key that begins so is shown


def exports(tree: Tree) -> Iterator[Offence]:
    """An export is imported by another module, at once or later."""
    texts = _modules(tree)
    used = set()
    for path, text in texts.items():
        for listed, source in IMPORT.findall(text):
            used |= {(_target(path, source), name.split(" as ")[0].strip()) for name in listed.split(",")}
        used |= {(_target(path, source), name) for source, _, name in LATER.findall(text)}
    for path, text in texts.items():
        for name in EXPORT.findall(text):
            if (path, name) not in used:
                yield Offence(path, line_of(text, f" {name}"), f"{name} is exported, and no module imports it")


def texts(tree: Tree) -> Iterator[Offence]:
    """A text of the English tables stands in a page, whole or by how its key begins."""
    found = _modules(tree)
    source = "\n".join(text for path, text in found.items() if PurePosixPath(path).parent.name != "text")
    starts = tuple(START_OF_KEY.findall(source))
    for path in TABLES:
        for key in KEY.findall(found.get(path, "")):
            if f'"{key}"' not in source and not key.startswith(starts):
                yield Offence(path, line_of(found[path], f'  "{key}":'), f"{key} is shown by no page")


def _modules(tree: Tree) -> dict[str, str]:
    paths = (path for path in tree.below(PAGES, ".js") if "vendor" not in PurePosixPath(path).parts)
    return {path: tree.text(path) for path in paths}


def _target(path: str, source: str) -> str:
    return os.path.normpath(PurePosixPath(path).parent / source)
