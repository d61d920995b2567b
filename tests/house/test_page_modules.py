"""The console's pages hold nothing that nothing uses: no export that no module imports, no text that no page shows."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "console/src/windlass_console/pages"
EXPORT = re.compile(r"^export (?:async )?(?:const|let|function\*?|class) (\w+)", re.M)
IMPORT = re.compile(r"import \{([^}]*)\} from \"([^\"]+)\"")
LATER = re.compile(r"import\(\"([^\"]+)\"\)\.then\(\((\w+)\) => \2\.(\w+)\)")
KEY = re.compile(r"^  \"([^\"]+)\":", re.M)
START_OF_KEY = re.compile(r"`([\w.]+)\$\{")  # `reason.${word}`: every key that begins so is shown


def modules(pages: Path) -> dict[Path, str]:
    """The text of each module that is ours."""
    return {path: path.read_text(encoding="utf-8") for path in pages.rglob("*.js") if "vendor" not in path.parts}


def unused_exports(texts: dict[Path, str]) -> list[str]:
    """Exports that no other module imports by name."""
    used = set()
    for path, text in texts.items():
        for names, source in IMPORT.findall(text):
            target = (path.parent / source).resolve()
            used |= {(target, name.split(" as ")[0].strip()) for name in names.split(",")}
        used |= {((path.parent / source).resolve(), name) for source, _, name in LATER.findall(text)}
    return sorted(
        f"{path.name}: {name}" for path, text in texts.items() for name in EXPORT.findall(text)
        if (path.resolve(), name) not in used
    )  # fmt: skip


def unused_keys(texts: dict[Path, str], table: str) -> list[str]:
    """Keys of the table that stand nowhere in the pages, whole or by how they begin."""
    source = "\n".join(text for path, text in texts.items() if path.parent.name != "text")
    starts = tuple(START_OF_KEY.findall(source))
    return [key for key in KEY.findall(table) if f'"{key}"' not in source and not key.startswith(starts)]


def test_every_export_is_imported() -> None:
    """An export that only its own module uses is none."""
    assert unused_exports(modules(PAGES)) == []


def test_every_text_is_shown() -> None:
    """Those of reasons and phases are found by what the operator writes."""
    texts = modules(PAGES)
    tables = texts[PAGES / "text/en.js"] + texts[PAGES / "text/en_status.js"]
    assert unused_keys(texts, tables) == []


def test_an_unused_export_and_text_are_seen(tmp_path: Path) -> None:
    """In a module that another one imports partly, and in one that is read later."""
    (tmp_path / "a.js").write_text("export const used = 1;\nexport function unused() {}\nexport class Later {}\n")
    (tmp_path / "b.js").write_text(
        'import { used } from "./a.js";\nconst page = () => import("./a.js").then((module) => module.Later);\n'
        't("a.shown");\ntOr(`reason.${used}`);\n'
    )
    texts = modules(tmp_path)
    assert unused_exports(texts) == ["a.js: unused"]
    assert unused_keys(texts, '{\n  "a.shown": "",\n  "a.hidden": "",\n  "reason.X": "",\n}') == ["a.hidden"]
