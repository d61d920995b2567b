"""The forms in which adapters may be given."""

import pytest
from windlass_sizing.settings import lora_modules
from windlass_sizing.settings.lora_modules import Given
from windlass_testbed.cases import every_case

SQL, POET = Given("sql", "/l/sql"), Given("poet", "/l/poet")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("sql=/l/sql", (SQL,), id="one"),
        pytest.param("sql=/l/sql poet=/l/poet", (SQL, POET), id="words"),
        pytest.param("sql=/l/sql,poet=/l/poet", (SQL, POET), id="commas"),
        pytest.param("\n sql=/l/sql\n poet=/l/poet\n", (SQL, POET), id="lines"),
        pytest.param("sql=/l/a=b", (Given("sql", "/l/a=b"),), id="equals-in-a-path"),
        pytest.param('{"name": "sql", "path": "/l/sql"}', (SQL,), id="object"),
        pytest.param('{"name": "sql", "path": "/l/sql"} poet=/l/poet', (SQL, POET), id="both"),
        pytest.param('[{"name": "sql", "path": "/l/sql"}, "poet=/l/poet"]', (SQL, POET), id="list"),
        pytest.param('["sql=/my models/a,b"]', (Given("sql", "/my models/a,b"),), id="spaces-in-a-list"),
        pytest.param('["{\\"name\\": \\"sql\\", \\"path\\": \\"/l/sql\\"}"]', (SQL,), id="words-of-a-command-line"),
        pytest.param('[{"name": "sql", "path": "sql", "merge": true}]', (Given("sql", "sql", merge=True),), id="merge"),
        pytest.param('{"name": "a", "path": "b", "base_model_name": null}', (Given("a", "b"),), id="null"),
    ],
)
def test_forms(text: str, expected: tuple[Given, ...]) -> None:
    """The engine's own forms, and lists of them."""
    items = lora_modules.split(text)
    assert items is not None
    assert expected == tuple(lora_modules.read(item) for item in items)


@every_case(
    "text",
    ["", " , ", "sql", "=x", "sql=", "[", "[]", "[1]", "[[]]", '{"name": "x"}', '{"name": "x", "path": 1}', "{",
     '{"name": "x", "path": "y", "rank": 8}', "a=b {", '["a"]', '["{"]', '{"name": "", "path": "y"}',
     "[" * 9000, '{"a":' * 2600, '[{"a":' * 2600],
)  # fmt: skip
def test_what_is_no_adapter(text: str) -> None:
    """Anything else is told as wrong, never half-read."""
    assert lora_modules.split(text) is None


@pytest.mark.parametrize(
    ("adapter", "written"),
    [
        pytest.param(SQL, "sql=/p", id="short"),
        pytest.param(Given("a", "x", base_model_name="m", is_3d_lora_weight=True),
                     '{"name": "a", "path": "/p", "base_model_name": "m", "is_3d_lora_weight": true}', id="long"),
    ],
)  # fmt: skip
def test_written_for_the_engine(adapter: Given, written: str) -> None:
    """The short form where it can say everything."""
    assert written == lora_modules.write(adapter, "/p")


def test_a_comma_needs_the_long_form() -> None:
    """The engine takes a comma for the sign of JSON."""
    assert lora_modules.write(SQL, "/a,b") == '{"name": "sql", "path": "/a,b"}'
