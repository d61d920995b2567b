"""Which grammar engine compiles a request, and which tools are bound: beside a manager that is none of the engine's."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from windlass.engine.grammars.plugin import by_request
from windlass.engine.grammars.tools import forced_bound, forced_whole, where_kept
from windlass_testbed.cases import every_case

VOCABULARY = 100


class Backend:
    """Compiles by its name; its masks are `words` wide."""

    def __init__(self, name: str, words: int = 4) -> None:
        self.name, self.words = name, words

    def allocate_token_bitmask(self, rows: int) -> Any:
        return SimpleNamespace(shape=(rows, self.words))


class Manager:
    """As the engine's: builds a backend where there is none, and compiles in a thread that reads it late."""

    def __init__(self, widths: dict[str, int]) -> None:
        self.backend: Backend | None = None
        self.built: list[str] = []
        self.widths, self.pool = widths, ThreadPoolExecutor(1)
        self.vllm_config = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: VOCABULARY))
        self.gate: Future[None] = Future()


def built_in(manager: Manager, request: Any) -> None:
    name = request.sampling_params.structured_outputs._backend
    if manager.backend is None:
        manager.built.append(name)
        manager.backend = Backend(name, manager.widths.get(name, 4))

    def compiled() -> str:
        manager.gate.result(60)
        assert manager.backend
        return manager.backend.name

    request.structured_output_request.grammar = manager.pool.submit(compiled)


def request_for(name: str | None) -> Any:
    constraint = SimpleNamespace(_backend=name) if name else None
    return SimpleNamespace(
        sampling_params=SimpleNamespace(structured_outputs=constraint),
        structured_output_request=SimpleNamespace(grammar=None) if name else None,
    )


def test_each_request_is_compiled_by_its_own_backend_and_each_is_built_once() -> None:
    """All are handed in before the first is compiled: a thread reads the backend of its own request."""
    manager, names = Manager({}), ["xgrammar", "guidance", "xgrammar", "outlines", "guidance"]
    requests = [request_for(name) for name in names]
    for request in requests:
        by_request(built_in)(manager, request)  # type: ignore[arg-type]
    manager.gate.set_result(None)
    assert [request.structured_output_request.grammar.result(60) for request in requests] == names
    assert manager.built == ["xgrammar", "guidance", "outlines"]
    assert manager.backend and manager.backend.name == "xgrammar"


@pytest.mark.parametrize("first", ["xgrammar", "guidance"])
def test_a_backend_whose_masks_do_not_fit_the_vocabulary_is_refused(first: str) -> None:
    """The order of requests is no matter; the step's mask is never made by it."""
    manager = Manager({"guidance": 5})
    manager.gate.set_result(None)
    requests = {name: request_for(name) for name in (first, "xgrammar", "guidance")}
    for request in requests.values():
        by_request(built_in)(manager, request)  # type: ignore[arg-type]
    assert requests["xgrammar"].structured_output_request.grammar.result(60) == "xgrammar"
    with pytest.raises(ValueError, match="the tokenizer has more tokens than the model"):
        requests["guidance"].structured_output_request.grammar.result(60)
    assert manager.backend and manager.backend.name == "xgrammar"


def test_a_request_without_a_constraint_has_no_grammar() -> None:
    manager = Manager({})
    by_request(built_in)(manager, request_for(None))  # type: ignore[arg-type]
    assert manager.built == []


@every_case(
    "strict, is_level_set, is_kept, bound",
    [
        (None, True, True, True),
        (None, True, False, False),
        (True, True, False, True),
        (False, True, True, False),
        (None, False, True, False),
        (True, True, True, True),
    ],
)
@every_case("api", ["chat", "responses"])
def test_which_tools_are_bound(api: str, strict: bool | None, is_level_set: bool, is_kept: bool, bound: bool) -> None:
    """A tool's own word goes first; where it says nothing the schema decides."""
    function = SimpleNamespace(strict=strict, parameters={"type": "object"})
    tool = SimpleNamespace(function=function) if api == "chat" else function
    schemas: list[str] = []
    with_strict = where_kept(lambda _, is_bound: is_bound, lambda schema: schemas.append(schema) or is_kept)  # type: ignore[func-returns-value]
    assert with_strict(tool, is_level_set) is bound
    assert schemas == (['{"type": "object"}'] if strict is None and is_level_set else [])


@pytest.mark.parametrize(
    ("choice", "level", "passed"),
    [
        ("required", "auto", "parameter"),
        (SimpleNamespace(type="function"), "auto", "parameter"),
        (SimpleNamespace(mode="auto"), "auto", "auto"),
        ("auto", "auto", "auto"),
        (None, "auto", "auto"),
        ("required", "function", "function"),
        ("auto", "parameter", "parameter"),
    ],
)
def test_forced_calls_are_bound_at_the_level_auto(choice: Any, level: str, passed: str) -> None:
    """A level that somebody set stays."""
    resolve = forced_bound(lambda _, __, level: level, "auto", "parameter")
    assert resolve([], choice, level) == passed


@pytest.mark.parametrize(
    ("choice", "level", "inside"),
    [
        ("required", "auto", "parameter"),
        (SimpleNamespace(type="function"), "auto", "parameter"),
        ("auto", "auto", "auto"),
        (None, "auto", "auto"),
        ("required", "function", "function"),
        ("required", "parameter", "parameter"),
    ],
)
def test_one_call_at_a_time_is_bound_too(choice: Any, level: str, inside: str) -> None:
    """`parallel_tool_calls: false` lets the engine raise `auto` to `function`: the level is ours before that."""
    seen: list[str] = []

    def built_in(parser: Any, request: Any) -> Any:
        seen.append(parser.tool_strict_level)
        return request

    parser, request = SimpleNamespace(tool_strict_level=level), SimpleNamespace(tool_choice=choice)
    assert forced_whole(built_in, "auto", "parameter")(parser, request) is request
    assert (seen, parser.tool_strict_level) == ([inside], level)
