"""Calibration data: what a file of samples may hold, and the sentence when it does not."""

import pytest
from windlass.engine.quantization.texts import read
from windlass.errors import UsageError


def test_paragraphs_and_lines(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\n\nthree\n")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n\n{"messages": [{"role": "user", "content": "y"}]}\n')
    assert read(tmp_path / "a.txt") == ["one\ntwo", "three"]
    assert read(tmp_path / "a.jsonl") == ["x", [{"role": "user", "content": "y"}]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"txt": 1}\n', "a.jsonl line 2 is no sample; write"),
        ("a.jsonl", b"{\n", "a.jsonl line 1 is no sample"),
        ("a.txt", b"\n\n", "holds no text; give a file with some"),
        ("a.txt", b"\xff\xfe", "cannot be read: it is no UTF-8"),
    ],
)
def test_what_is_no_data_is_reported(tmp_path, name, content, words) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=words):
        read(tmp_path / name)


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read(tmp_path / "none.txt")
