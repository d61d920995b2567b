"""Data sets, tokenizers and folders are looked at before a server is."""

from dataclasses import replace
from pathlib import Path

import pytest
from windlass.bench.serving import files
from windlass.bench.serving.load import DataSet, Load
from windlass.errors import ServerError, UsageError

from .samples import LOAD


@pytest.fixture
def asked(tmp_path: Path) -> Load:
    """A load whose tokenizer is there."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/tokenizer.json").write_text("{}")
    return replace(LOAD, tokenizer=str(tmp_path / "model"))


def test_tokenizer(asked: Load, tmp_path: Path) -> None:
    """A directory with a tokenizer passes; another does not, and a hub is never asked."""
    files.check(asked)
    with pytest.raises(UsageError, match="holds no tokenizer; it needs one of tokenizer"):
        files.check(replace(asked, tokenizer=str(tmp_path)))
    with pytest.raises(UsageError, match="--tokenizer Qwen/Qwen2-7B is no directory"):
        files.check(replace(asked, tokenizer="Qwen/Qwen2-7B"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("q.json", '{"prompt": "a"}', "is no .jsonl file"),
        ("q.jsonl", "", "is empty"),
        ("q.jsonl", '{"prompt": "a", "output_tokens": 3}\n\n', "line 2: no JSON"),
        ("q.jsonl", '["a"]', "line 1: no prompt"),
        ("q.jsonl", '{"prompt": 3}', "line 1: no prompt"),
        ("q.jsonl", '{"prompt": "a"}', "line 1: no output_tokens; add a whole number, or give --output-len"),
        ("q.jsonl", '{"prompt": "a", "output_tokens": true}', "line 1: no output_tokens"),
        ("q.jsonl", b"\xff\xfe", "is no UTF-8 text"),
        ("", "", "cannot be read: Is a directory"),
    ],
)
def test_bad_jsonl(asked: Load, tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    """The line and what to write."""
    path = tmp_path / name
    if name:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        path = tmp_path / "q.jsonl"
        path.mkdir()
    with pytest.raises(UsageError) as refused:
        files.check(replace(asked, dataset=DataSet.JSONL, dataset_path=str(path)))
    assert said in str(refused.value)


def test_jsonl(asked: Load, tmp_path: Path) -> None:
    """Lengths stand in the file or in the option."""
    path = tmp_path / "q.jsonl"
    load = replace(asked, dataset=DataSet.JSONL, dataset_path=str(path))
    path.write_text('{"prompt": "a", "output_tokens": 3}\n{"prompt": "b", "output_tokens": 4}\n')
    files.check(load)
    path.write_text('{"prompt": "a"}\n')
    files.check(replace(load, output_len=8))


def test_sharegpt(asked: Load, tmp_path: Path) -> None:
    """A list passes, an object does not, nor what is not there."""
    path = tmp_path / "s.json"
    load = replace(asked, dataset=DataSet.SHAREGPT, dataset_path=str(path))
    with pytest.raises(UsageError, match="cannot be read: No such file or directory; name a file"):
        files.check(load)
    path.write_text(' [{"conversations": []}]')
    files.check(load)
    path.write_text("{}")
    with pytest.raises(UsageError, match="is no list of conversations"):
        files.check(load)


def test_folder_must_be_new(tmp_path: Path) -> None:
    """Figures of two benchmarks are never mixed."""
    files.make(tmp_path / "a/b")
    files.make(tmp_path / "a/b")
    with pytest.raises(UsageError, match="holds files already; name a new folder"):
        files.make(tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made: File exists"):
        files.make(tmp_path / "file")


@pytest.mark.parametrize("content", [None, "", "{", "[]"])
def test_no_result(tmp_path: Path, content: str | None) -> None:
    """A client that ended well and left nothing is a failure all the same."""
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ServerError, match="load generator"):
        files.read_result(path)
