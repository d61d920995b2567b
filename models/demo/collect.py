"""Collects the demo model's data from Debian packages: what each public name of Python does, and text to read.

Standard library only. The packages' hashes are in `data.json`; another version is refused unless it is asked for, as
the model could not be made again from it. All of it is CPython's, under the PSF License Agreement.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "data.json"
ANSWER_CHARS = 240  # two sentences at most: a model this small keeps what is short
HELD_OUT_EVERY = 50  # one source file of so many is never trained on
DIRECTIVE = re.compile(
    r"^(?P<indent> *)\.\. (?P<kind>function|class|method|classmethod|staticmethod|attribute|data|exception|decorator"
    r"|coroutinefunction|coroutinemethod|awaitablefunction|module|currentmodule|opcode|option)::\s*(?P<name>.*)$"
)
MEMBERS = {"method", "classmethod", "staticmethod", "attribute", "coroutinemethod"}
KINDS = {"exception": "exception", "class": "class", "module": "module", "data": "constant", "attribute": "attribute"}
ROLE = re.compile(r":[a-zA-Z:+-]+:`!?~?\.?([^`<]+?)(?:\s*<([^>`]+)>)?`")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(*`])")
ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp|Mr|Dr|No|approx)\.|\b[A-Z]\.)$")


@dataclass(frozen=True, slots=True)
class Fact:
    """A public name and what it does, in the documentation's own first words."""

    name: str
    kind: str
    text: str


class DataError(Exception):
    """The data is not what the model was made from; the text says what and what to do."""


def main() -> int:
    """Write facts.jsonl, read.jsonl and held_out.jsonl into the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the packages and the collected files go")
    parser.add_argument(
        "--accept", action="store_true", help="take the packages' newest versions and rewrite data.json"
    )
    arguments = parser.parse_args()
    try:
        counts = collect(arguments.folder, accept=arguments.accept, rewrite=arguments.accept)
    except DataError as error:
        print(f"collect: {error}", file=sys.stderr)
        return 1
    print(json.dumps(counts))
    return 0


def collect(folder: Path, accept: bool = False, rewrite: bool = False) -> dict[str, int]:
    """Fetch, check, unpack and read the packages; return how much was found.

    With `accept` other versions than those in data.json will do; with `rewrite` it is written anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "root"
    packages = json.loads(DATA.read_text())["packages"]
    rows = [_unpacked(folder, root, row, accept) for row in packages]
    if rewrite:
        DATA.write_text(json.dumps({"packages": rows, "license": "PSF-2.0"}, indent=1) + "\n")
    library, docs = next(root.glob("usr/lib/python3.*")), next(root.glob("usr/share/doc/python3*/html/_sources"))
    facts = distinct([*documented(docs), *docstrings(library)])
    texts = list(readings(library, docs))
    held = [row for row in texts if row[0].startswith("lib/") and _bucket(row[0]) == 0]
    _write(folder / "facts.jsonl", (asdict(fact) for fact in facts))
    _write(folder / "read.jsonl", ({"path": p, "text": t} for p, t in texts if (p, t) not in set(held)))
    _write(folder / "held_out.jsonl", ({"path": path, "text": text} for path, text in held))
    return {"facts": len(facts), "files": len(texts), "held_out": len(held), "bytes": sum(len(t) for _, t in texts)}


def _write(path: Path, rows: Iterator[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _bucket(path: str) -> int:
    return int(hashlib.sha256(path.encode()).hexdigest(), 16) % HELD_OUT_EVERY


def _unpacked(folder: Path, root: Path, row: dict[str, str], accept: bool) -> dict[str, str]:
    """Download one package, check it against its row, unpack it; return the row of what was found."""
    name = row["package"]
    wanted = name if accept else f"{name}={row['version']}"
    if not list(folder.glob(f"{name}_*.deb")):
        done = subprocess.run(
            ["apt-get", "download", "-q", wanted], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DataError(f"{wanted} cannot be downloaded: {done.stderr.strip()[-200:]}; run `apt-get update`, or "
                            "take another version with --accept")  # fmt: skip
    file = next(folder.glob(f"{name}_*.deb"))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != row.get("sha256") and not accept:
        raise DataError(f"{file.name} has sha256 {digest[:12]}, data.json says {row['sha256'][:12]}; use --accept")
    subprocess.run(["dpkg-deb", "-x", str(file), str(root)], check=True)
    return {"package": name, "version": file.name.split("_")[1].replace("%3a", ":"), "sha256": digest}


def distinct(facts: list[Fact]) -> list[Fact]:
    """One fact a name: the documentation's before the docstring's, sorted by name."""
    found: dict[str, Fact] = {}
    for fact in facts:
        found.setdefault(fact.name, fact)
    return sorted(found.values(), key=lambda fact: fact.name)


def documented(docs: Path) -> Iterator[Fact]:
    """The facts of the library reference."""
    for path in sorted((docs / "library").glob("*.rst.txt")):
        yield from _page(path.read_text().splitlines())


def _page(lines: list[str]) -> Iterator[Fact]:
    module, scopes = "", [(-1, "")]
    for number, line in enumerate(lines):
        match = DIRECTIVE.match(line)
        if not match or match["kind"] in {"opcode", "option"}:
            continue
        indent, kind = len(match["indent"]), match["kind"]
        if kind in {"module", "currentmodule"}:
            module = match["name"].strip()
            synopsis = _option(lines, number, "synopsis")
            if kind == "module" and synopsis:
                yield Fact(module, "module", synopsis if synopsis.endswith(".") else f"{synopsis}.")
            continue
        while scopes[-1][0] >= indent:
            scopes.pop()
        names = _names(lines, number, match["name"])
        full = [_qualified(name, kind, module, scopes[-1][1]) for name in names]
        if kind in {"class", "exception"} and full:
            scopes.append((indent, full[0]))
        text = answer(_body(lines, number, indent))
        yield from (Fact(name, KINDS.get(kind, "function"), text) for name in full if text and _public(name))


def _names(lines: list[str], number: int, first: str) -> list[str]:
    """The names of one directive: it may have several signatures, one a line."""
    column = lines[number].index("::") + 3
    rows = [first]
    for line in lines[number + 1 :]:
        if not line.strip() or line.strip().startswith(":") or len(line) - len(line.lstrip()) < column - 2:
            break
        rows.append(line.strip())
    names = [re.split(r"[(\s]", row.strip().removeprefix("abstractmethod "))[0].rstrip("\\") for row in rows]
    return [name for name in dict.fromkeys(names) if re.fullmatch(r"[A-Za-z_][\w.]*", name)]


def _qualified(name: str, kind: str, module: str, scope: str) -> str:
    if kind in MEMBERS and scope and "." not in name:
        return f"{scope}.{name}"
    if not module or name.startswith(f"{module}."):
        return name
    return f"{module}.{name}"


def _public(name: str) -> bool:
    return (
        not any(part.startswith("_") for part in name.split(".")) and len(name) <= 60 and not name.startswith("test.")
    )


def _option(lines: list[str], number: int, key: str) -> str:
    for line in lines[number + 1 : number + 6]:
        if line.strip().startswith(f":{key}:"):
            return plain(line.split(f":{key}:", 1)[1])
    return ""


def _body(lines: list[str], number: int, indent: int) -> str:
    """The first paragraph of a directive's body."""
    words: list[str] = []
    begun = False
    for line in lines[number + 1 :]:
        stripped = line.strip()
        if stripped and len(line) - len(line.lstrip()) <= indent:
            break
        begun = begun or not stripped
        if not begun or (
            stripped.startswith((":", "..")) and not words and not stripped.startswith((":c", ":f", ":m"))
        ):
            continue
        if not stripped and words:
            break
        if stripped:
            words.append(stripped)
    return " ".join(words)


def plain(text: str) -> str:
    """Markup away: roles, literals, emphasis."""
    text = ROLE.sub(lambda match: match[1].strip(), text)
    text = re.sub(r"``([^`]*)``", r"\1", text)
    text = re.sub(r"`([^`<]*?)\s*<[^>]*>`_*", r"\1", text).replace("`", "")
    text = re.sub(r"(?<![\w*])\*{1,2}([^\s*](?:[^*]*[^\s*])?)\*{1,2}(?![\w*])", r"\1", text)
    text = re.sub(r"\|(\w[\w-]*)\|_?", r"\1", text).replace("\\ ", "").replace("\\", "")
    return re.sub(r"\s+", " ", text).strip()


def answer(text: str) -> str:
    """The first sentences that fit, or nothing when there is no clean one."""
    text = plain(text)
    if text.startswith((">>>", "|", "+-", "Deprecated")) or not re.match(r"[A-Z\"'(]", text):
        return ""
    chosen = ""
    for sentence in _sentences(text)[:2]:
        longer = f"{chosen} {sentence}".strip()
        if len(longer) > ANSWER_CHARS:
            break
        chosen = longer
    return chosen if len(chosen) > 12 and chosen.endswith((".", "!", ")")) else ""


def _sentences(text: str) -> list[str]:
    parts = SENTENCE_END.split(text)
    joined: list[str] = []
    for part in parts:
        if joined and ABBREVIATION.search(joined[-1]):
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return joined


def docstrings(library: Path) -> Iterator[Fact]:
    """The facts in the source's own docstrings: public functions, classes and methods of public modules."""
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if (
            not parts
            or parts[0] in {"test", "idlelib", "lib2to3", "turtledemo"}
            or any(p.startswith("_") for p in parts)
        ):
            continue
        yield from _members(ast.parse(path.read_text()), ".".join(parts))


def _members(node: ast.AST, prefix: str) -> Iterator[Fact]:
    kinds = {ast.FunctionDef: "function", ast.AsyncFunctionDef: "function", ast.ClassDef: "class"}
    for child in ast.iter_child_nodes(node):
        kind = kinds.get(type(child))
        if kind is None or child.name.startswith("_"):
            continue
        name = f"{prefix}.{child.name}"
        paragraph = (ast.get_docstring(child) or "").split("\n\n")[0]
        text = answer(paragraph if paragraph.rstrip().endswith((".", "!")) else f"{paragraph.rstrip()}.")
        if text and _public(name):
            yield Fact(name, kind, text)
        if kind == "class":
            yield from _members(child, name)


def readings(library: Path, docs: Path) -> Iterator[tuple[str, str]]:
    """Text to read: the library's source and the documentation."""
    for path in sorted(library.rglob("*.py")):
        text = path.read_text(errors="ignore")
        if 200 < len(text) < 400_000 and "lib2to3/tests/data" not in str(path):
            yield f"lib/{path.relative_to(library)}", text
    for path in sorted(docs.rglob("*.rst.txt")):
        if path.name != "changelog.rst.txt":
            yield f"docs/{path.relative_to(docs)}", path.read_text(errors="ignore")


if __name__ == "__main__":
    sys.exit(main())
