"""Plain words: a stranger reads a page once, and a name is a term of the field.

Tables and code are left out of pages; comments and strings are prose, so they are left out of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .tree import Offence, Tree, line_of

WORDS_MAX = 25
PAGE_HEAD = 600  # characters; a page that code prints says so there
PRINTED = re.compile(r"<!-- (?:Printed|Found)|is generated from `|prints this page")
# Folders whose names are the field's terms, and the words of ours that came before them.
FOLDERS = (
    *(
        "server/lookahead",
        "server/src/windlass/engine/lookahead",
        "server/tests/engine/lookahead",
        "benchmarks/lookahead",
    ),
    *(f"server/src/windlass/{name}" for name in ("chat_page", "group", "sampling", "usage")),
    *(f"server/src/windlass/engine/quantization/{name}" for name in ("fp8", "gptq", "kernels")),
    *("lib/base/src", "lib/api/src/windlass_api/crd", "operator/src/windlass_operator/inspection", "tools/testbed/src"),
    *(f"license_server/src/windlass_license/{name}" for name in ("election", "rules", "storage")),
    *(f"lib/sizing/src/windlass_sizing/{name}" for name in ("placement", "quantization")),
    *("clients/console/src", "tests/browser"),
)
OLD_WORDS = frozenset(
    "answered door doors foresight hope hopes hopeless pace played promise promised promises promising rang rung said"
    " told truth truths turns".split()
)
SUFFIXES = (".py", ".pyi", ".h", ".cc", ".cu", ".js")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TEXT = re.compile(r"""(?s)\"\"\".*?\"\"\"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])*'|//[^\n]*|#[^\n]*""")
JS_CODE = re.compile(r"""(?s)//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[`{}]|[^`{}"'/]+|.""")
JS_TEMPLATE = re.compile(r"(?s)\\.|`|\$\{|[^`$\\]+|.")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and items of lists, each in one line; link targets are left out."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip() or line.startswith(("|", "#", "<!--")) or ITEM.match(line):
            found.append([])
        if line.strip() and not line.startswith(("|", "#", "<!--", "    windlass")):
            found[-1].append(ITEM.sub("", line).strip())
    return [re.sub(r"\]\([^)]*\)", "]", " ".join(lines)) for lines in found if lines]


def sentences(paragraph: str) -> list[str]:
    """A sentence ends with a full stop, or a colon before a list."""
    return re.split(r"(?<=[.!?])\**\s+(?=[vA-Z`*\[\"(…0-9])", paragraph)


def length(sentence: str) -> int:
    """Its words; figures are none."""
    return len(re.findall(r"\S*[A-Za-z]\S*", sentence))


def pages(tree: Tree) -> Iterator[Offence]:
    """A sentence of README and docs has at most 25 words, save on printed pages: a longer one says two things."""
    for page in ("README.md", *tree.below("docs", ".md")):
        text = tree.text(page)
        if PRINTED.search(text[:PAGE_HEAD]):
            continue
        for sentence in (one for paragraph in paragraphs(text) for one in sentences(paragraph)):
            if (count := length(sentence)) > WORDS_MAX:
                begins = re.search(r"\s+".join(map(re.escape, sentence.split()[:3])), text)
                place = line_of(text, begins[0]) if begins else 1
                yield Offence(page, place, f"has {count} words, at most {WORDS_MAX}; make two: {sentence[:80]} …")


def names(tree: Tree) -> Iterator[Offence]:
    """A name has no word that was replaced; CONTRIBUTING and docs/explanation/speculation.md have the terms."""
    for path in (path for folder in FOLDERS for path in tree.below(folder, *SUFFIXES)):
        if {"build", "vendor"} & set(Path(path).parts):
            continue
        text = tree.text(path)
        if words := words_of(Path(path).stem) & OLD_WORDS:
            yield Offence(path, 1, f"has an old word of ours in its name: {', '.join(sorted(words))}")
        for name in sorted(old_words(js_code(text) if path.endswith(".js") else text)):
            yield Offence(path, line_of(text, name), f"{name} has an old word of ours: take a term of the field")


def words_of(name: str) -> set[str]:
    """The words of a name in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def old_words(source: str) -> set[str]:
    """Names with a word that was replaced; comments and strings hold prose, not names."""
    return {name for name in NAME.findall(TEXT.sub(" ", source)) if words_of(name) & OLD_WORDS}


def js_code(source: str) -> str:
    """A module without its comments, strings and the text of its templates; `${…}` in a template is code."""
    kept, depths, at, in_template = [], list[int](), 0, False
    while at < len(source):
        piece = (JS_TEMPLATE if in_template else JS_CODE).match(source, at)
        if piece is None:  # each pattern ends with one that fits any character
            break
        part, at = piece[0], piece.end()
        if part == "`":
            in_template = not in_template
        elif in_template and part == "${":
            depths, in_template = [*depths, 0], False
        elif not in_template and part == "}" and depths and depths[-1] == 0:
            depths, in_template = depths[:-1], True
        elif not in_template and part in ("{", "}") and depths:
            depths[-1] += 1 if part == "{" else -1
        elif not in_template and not part.startswith(("//", "/*", '"', "'")):
            kept.append(part)
    return re.sub(r"\bPromise\b", "", " ".join(kept))  # the language's own
