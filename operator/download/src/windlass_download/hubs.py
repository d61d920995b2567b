"""The two hubs' protocols, one row each: how a model's files are listed, where one lies, how a token is shown.

Hugging Face: `/api/models/NAME/revision/REV` names the commit, `/api/models/NAME/tree/COMMIT` lists by pages (the next
one stands in `Link`), `/NAME/resolve/COMMIT/PATH` answers or redirects. A file in LFS has its sha256, another its git
blob id. ModelScope: `/api/v1/models/NAME/repo/files` lists all at once with a sha256 each (an unknown revision is
`Files: null`), `/api/v1/models/NAME/repo?FilePath=` answers or redirects. It names no commit for the whole, only each
file's own and the short id of the last one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, urljoin, urlsplit

import httpx2

from windlass_download.errors import UserError
from windlass_download.wanted import (
    FILES_MAX,
    GIT_SHA1,
    MODEL_NAME,
    SHA256,
    Listing,
    RemoteFile,
    Wanted,
    broken,
    digest_of,
    listing,
    printable,
    size_of,
    text_of,
)

PAGES_MAX = 100  # Hugging Face lists 1,000 files a page
NEXT_PAGE = re.compile(r'<([^<>]{1,2048})>\s{0,8};\s{0,8}rel="?next"?')
COMMIT = re.compile("[0-9a-f]{40,64}")

# Asks for a URL and gives the parsed JSON and the `Link` header.
Ask = Callable[[str], tuple[Any, str]]


@dataclass(frozen=True, slots=True)
class Hub:
    """One hub's way of speaking."""

    word: str
    label: str
    endpoint: str
    revision: str
    listing: Callable[[Wanted, Ask], Listing]
    file_url: Callable[[Wanted, str, str], str]  # of (wanted, commit, path)
    credentials: Callable[[str], dict[str, str]]


def _huggingface_listing(wanted: Wanted, ask: Ask) -> Listing:
    base = f"{wanted.endpoint}/api/models/{wanted.name}"
    about, _ = ask(f"{base}/revision/{quote(wanted.revision, safe='')}")
    commit = text_of(about, "sha") if isinstance(about, Mapping) else ""
    if not COMMIT.fullmatch(commit):
        raise broken(f"{wanted.endpoint} names no commit for {wanted.words}")
    rows: list[RemoteFile] = []
    page = f"{base}/tree/{commit}?recursive=true"
    for _ in range(PAGES_MAX):
        answer, link = ask(page)
        if not isinstance(answer, list):
            raise broken(f"{wanted.endpoint} lists no files for {wanted.words}")
        rows += [_huggingface_file(row) for row in answer if isinstance(row, Mapping) and row.get("type") == "file"]
        following = NEXT_PAGE.search(link)
        if following is None or len(rows) > FILES_MAX:  # `listing` refuses so many
            return listing(commit, rows, wanted)
        page = _at(wanted, page, following[1])
    raise broken(f"{wanted.endpoint} lists {wanted.name} without end")


def _at(wanted: Wanted, page: str, link: str) -> str:
    """The next page at the endpoint's own host: a mirror passes on the address of the hub that it mirrors."""
    try:
        url = urljoin(page, link)
        parts = urlsplit(url)
    except ValueError:
        raise broken(f"{wanted.endpoint} names no usable next page of {wanted.name}") from None
    if "/api/" not in parts.path:
        return url
    return wanted.endpoint + parts.path[parts.path.index("/api/") :] + f"?{parts.query}"


def _huggingface_file(row: Mapping[str, Any]) -> RemoteFile:
    lfs = row.get("lfs")
    if isinstance(lfs, Mapping):
        algorithm, digest = digest_of(lfs.get("oid"), SHA256)
        return RemoteFile(text_of(row, "path"), size_of(lfs.get("size", row.get("size"))), algorithm, digest)
    algorithm, digest = digest_of(row.get("oid"), GIT_SHA1)
    return RemoteFile(text_of(row, "path"), size_of(row.get("size")), algorithm, digest)


def _huggingface_url(wanted: Wanted, commit: str, path: str) -> str:
    return f"{wanted.endpoint}/{wanted.name}/resolve/{commit}/{quote(path)}"


def _modelscope_listing(wanted: Wanted, ask: Ask) -> Listing:
    revision = quote_plus(wanted.revision)
    answer, _ = ask(f"{wanted.endpoint}/api/v1/models/{wanted.name}/repo/files?Revision={revision}&Recursive=True")
    if not isinstance(answer, Mapping):
        raise broken(f"{wanted.endpoint} lists no files for {wanted.words}")
    if answer.get("Success") is False or answer.get("Code") not in (200, None):
        said = printable(f"{answer.get('Message')} (code {answer.get('Code')})")
        raise UserError("DownloadNotFound", f"{wanted.endpoint} refuses {wanted.words}: {said}")
    data = answer.get("Data")
    rows = data.get("Files") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(rows, list):
        raise UserError(
            "DownloadNotFound",
            f"{wanted.endpoint} has no revision {wanted.revision} of {wanted.name}; "
            "correct spec.model.download.revision or leave it out",
        )
    blobs = [row for row in rows if isinstance(row, Mapping) and row.get("Type") != "tree"]
    return listing(_modelscope_commit(data, blobs), [_modelscope_file(row) for row in blobs], wanted)


def _modelscope_file(row: Mapping[str, Any]) -> RemoteFile:
    algorithm, digest = digest_of(row.get("Sha256"), SHA256)
    return RemoteFile(text_of(row, "Path") or text_of(row, "Name"), size_of(row.get("Size")), algorithm, digest)


def _modelscope_commit(data: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> str:
    """The newest commit in full: the file's own commit that begins with the short id; empty when none does."""
    last = data.get("LatestCommitter")
    short = text_of(last, "ShortId") if isinstance(last, Mapping) else ""
    commits = (text_of(row, "Revision") for row in rows)
    return next((one for one in commits if short and one.startswith(short) and COMMIT.fullmatch(one)), "")


def _modelscope_url(wanted: Wanted, _commit: str, path: str) -> str:
    # By the revision as it was asked for, as the hub's own client does: each file's sha256 is what pins it.
    query = f"Revision={quote_plus(wanted.revision)}&FilePath={quote_plus(path)}"
    return f"{wanted.endpoint}/api/v1/models/{wanted.name}/repo?{query}"


HUBS = {
    hub.word: hub
    for hub in (
        Hub(
            "modelscope",
            "ModelScope",
            "https://www.modelscope.cn",
            "master",
            _modelscope_listing,
            _modelscope_url,
            # Older doors read the cookie, newer ones the header.
            lambda token: {"Authorization": f"Bearer {token}", "Cookie": f"m_session_id={token}"},
        ),
        Hub(
            "huggingface",
            "Hugging Face",
            "https://huggingface.co",
            "main",
            _huggingface_listing,
            _huggingface_url,
            lambda token: {"Authorization": f"Bearer {token}"},
        ),
    )
}


def _usable(endpoint: str) -> bool:
    """Whether an endpoint is a base URL that a path can follow, as the library that connects reads it."""
    try:
        parts = httpx2.URL(endpoint)
    except (httpx2.InvalidURL, ValueError):
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.host)
        and not (parts.userinfo or parts.query or parts.fragment or "?" in endpoint or "#" in endpoint)
    )


def wanted_from(hub: str, name: str, revision: str, endpoint: str, *patterns: tuple[str, ...]) -> Wanted:
    """What a command line asks for, with the hub's defaults filled in; ValueError says what cannot be."""
    row = HUBS[hub]
    base = (endpoint or row.endpoint).rstrip("/")
    if not _usable(base):
        raise ValueError(f'--endpoint "{printable(base)}": give http(s)://HOST[:PORT][/PATH]')
    if not MODEL_NAME.fullmatch(name):
        raise ValueError(f'--name "{printable(name)}": give OWNER/NAME as the hub writes it')
    return Wanted(hub, name, revision or row.revision, base, *patterns)
