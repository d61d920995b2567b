"""The site's hook for mkdocs: the navigation from the folders, and a page for each file that docs/ links to.

Only mkdocs calls it (`make docs`). A link from docs/ to a file of the repository becomes a page under `repository/`, so
that the site is whole without a network and a link to nothing ends the build.
"""

import re
from pathlib import Path, PurePosixPath

import links
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pathspec.gitignore import GitIgnoreSpec

# The order of the tabs. A folder of docs/ that has no row here ends the build.
SECTIONS = {
    "tutorials": "Tutorials",
    "how-to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
    "adr": "Decisions",
    "attack": "Attacks",
}
# The weight of a folder's pages in a search, where it is not 1: an instruction comes before the record of a decision.
WEIGHTS = {"tutorials": 4, "how-to": 4, "adr": 0.25, "attack": 0.25}
# What a browser fetches by itself, from another host.
_FETCHED = re.compile(
    r'<(?:script|img|iframe)\b[^>]*\bsrc="((?:https?:)?//[^"]+)|<link\b[^>]*\bhref="((?:https?:)?//[^"]+)'
)
# A name with dots in inline code, as `spec.model.id`.
_DOTTED = re.compile(r"(?<=<code>)[\w\[\]-]+(?:\.[\w\[\]-]+)+(?=</code>)")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", ".cu": "c++", ".h": "c++"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of linked files, and name every page in the navigation."""
    _add_linked(files, config)
    config.nav = [{"Start": "index.md"}, *_sections(files)]
    config.not_in_nav = GitIgnoreSpec.from_lines([f"/{links.REPOSITORY}/"])
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point the links that leave docs/ at the site's copies; set the page's place in a search, and its columns."""
    folder = PurePosixPath(page.file.src_uri).parts[0]
    # A search leads to pages that explain, not to files.
    page.meta["search"] = {"exclude": folder == links.REPOSITORY, "boost": WEIGHTS.get(folder, 1)}
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]  # one column would name this page alone, the other narrows the cards
    return links.rewritten(_source(page.file.src_uri), markdown)


def _source(src_uri: str) -> str:
    """The path in the repository of a page of the site."""
    if src_uri.startswith(f"{links.REPOSITORY}/"):
        return src_uri.removeprefix(f"{links.REPOSITORY}/")
    return f"{links.DOCS}/{src_uri}"


def _add_linked(files: Files, config: MkDocsConfig) -> None:
    waiting = [_source(file.src_uri) for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for target in links.targets((links.ROOT / page).read_text(encoding="utf-8")):
            path, _ = links.resolve(page, target)
            place = links.placed(path) if (links.ROOT / path).exists() else ""
            if place.startswith(f"{links.REPOSITORY}/") and files.get_file_from_path(place) is None:
                files.append(_made(place, path, config))
                readme = _source(place)
                waiting += [readme] if readme.endswith(".md") and (links.ROOT / readme).is_file() else []


def _made(place: str, path: str, config: MkDocsConfig) -> File:
    full = links.ROOT / path
    if full.is_dir() and place.endswith("/README.md"):
        full /= "README.md"
    if full.suffix == ".md" or not place.endswith(".md"):
        return File.generated(config, place, abs_src_path=str(full))
    return File.generated(config, place, content=f"# {path}\n\n{_shown(full)}")


def _shown(full: Path) -> str:
    if full.is_dir():
        inner = (f"{each.name}/" if each.is_dir() else each.name for each in full.iterdir() if each.name[0] != ".")
        return "".join(f"- `{name}`\n" for name in sorted(inner))
    return f"~~~~ {LANGUAGES.get(full.suffix, 'text')}\n{full.read_text(encoding='utf-8')}\n~~~~\n"


def _sections(files: Files) -> list[dict[str, list[str]]]:
    pages = sorted(file.src_uri for file in files.documentation_pages())
    found: dict[str, list[str]] = {folder: [] for folder in SECTIONS}
    for uri in pages:
        folder = PurePosixPath(uri).parts[0]
        if folder in found:
            found[folder].append(uri)
        elif folder not in (links.REPOSITORY, "index.md"):
            raise PluginError(f"docs/{folder} is in no section of the site; name it in SECTIONS of tools/docs/hook.py")
    return [{SECTIONS[folder]: sorted(uris, key=_readme_first)} for folder, uris in found.items() if uris]


def _readme_first(uri: str) -> tuple[bool, str]:
    return not uri.endswith(("README.md", "index.md")), uri


def on_page_content(html: str, **_: object) -> str:
    """Let a long name break after its dots, and nowhere inside a word."""
    return _DOTTED.sub(lambda name: name[0].replace(".", ".<wbr>"), html)


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Hold the page to be whole without a network."""
    if outside := _FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} would fetch {outside[1] or outside[2]}; the site must need no network")
    return output
