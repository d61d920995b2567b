"""Writes the demo's questions for `windlass bench serve --dataset demo`: `python models/demo/questions.py FILE`.

Public functions of a few modules that the model was taught, each asked once, in phrasings that it was not. Standard
library only; the names are those of the Python that runs it, 3.11 for the file in the repository.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from random import Random

from dialogue import HELD_OUT

MODULES = (
    *("os.path", "os", "json", "re", "math", "shutil", "random", "textwrap", "itertools", "functools", "statistics"),
    *("string", "time", "glob", "heapq", "bisect", "operator", "subprocess", "tempfile", "socket", "threading"),
)
QUESTIONS = 300
ANSWER_TOKENS = 48
"""Most of an answer; the model ends most of them earlier."""


def names() -> list[str]:
    """Of the functions that the modules export."""
    found = []
    for name in MODULES:
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", None) or [key for key in vars(module) if not key.startswith("_")]
        functions = [key for key in exported if inspect.isroutine(getattr(module, key))]
        found += [f"{name}.{function}" for function in functions]
    return sorted(dict.fromkeys(found))


def main() -> None:
    """A question a line."""
    random = Random(31)
    asked = random.sample(names(), QUESTIONS)
    rows = [{"prompt": random.choice(HELD_OUT).format(name), "output_tokens": ANSWER_TOKENS} for name in asked]
    Path(sys.argv[1]).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
