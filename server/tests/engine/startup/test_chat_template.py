"""A chat template is compiled as the engine compiles it; a broken one is named by its file, line and mistake."""

import gc
import weakref

import pytest
from windlass.engine.startup.chat_template import Template, compiled, fault
from windlass.errors import ChatTemplateError
from windlass.launch.templates import DIRECTORY
from windlass_testbed.cases import every_case

HELLO = [{"role": "user", "content": "Hello"}]
TOKENS = (("bos_token", "<s>"), ("eos_token", "</s>"))
SOUND = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("text", "line", "mistake"),
    [
        pytest.param("{% for m in messages %}\n{{ m.content }}\n", 2, "Unexpected end of template", id="unclosed"),
        pytest.param("a\n\n{{ messages[0] }", 3, "unexpected '}'", id="brace"),
        pytest.param("a\n{{ messages | nosuch }}", 2, "No filter named 'nosuch'", id="filter"),
        pytest.param("{% include_it %}", 1, "Encountered unknown tag 'include_it'", id="tag"),
        pytest.param("a\n{{ '" + '"' + " }}", 2, "unexpected char", id="quote"),
    ],
)
def test_a_mistake_in_the_text_is_named(text: str, line: int, mistake: str) -> None:
    with pytest.raises(ChatTemplateError) as refused:
        compiled(Template(text, "/data/model/chat_template.jinja"))
    where = f"line {line} of the chat template /data/model/chat_template.jinja cannot be rendered: "
    assert str(refused.value).startswith(where)
    assert mistake in str(refused.value)
    assert str(refused.value).endswith("; correct it, or name another with --chat-template")
    assert (refused.value.reason, refused.value.exit_code) == ("ChatTemplateBroken", 3)


@every_case("path", sorted(DIRECTORY.glob("*.jinja")))
def test_our_own_templates_are_sound(path) -> None:
    """Each compiles and renders a conversation of one message."""
    assert fault(Template(path.read_text(encoding="utf-8"), path.name, TOKENS), HELLO, ()) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{% generation %}{{ messages[0].content }}{% endgeneration %}", id="generation"),
        pytest.param("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}", id="loop"),
        pytest.param("{{ strftime_now('%Y') }}{{ messages | tojson(indent=2) }}", id="engine's own words"),
        pytest.param("{{ bos_token + messages[0].content }}", id="token"),
        pytest.param("{% for part in messages[0].content %}{{ part.type + part.text }}{% endfor %}", id="parts"),
        pytest.param("{{ raise_exception('send pictures only') }}", id="refuses by itself"),
    ],
)
def test_what_the_engine_renders_is_no_fault(text: str) -> None:
    assert fault(Template(text, "t", TOKENS), HELLO, ()) is None


def test_a_mistake_of_rendering_has_its_line() -> None:
    """It compiles, and ends where it is rendered; with tools, too."""
    found = fault(Template(f"{SOUND}\n{{{{ messages[0].nothing.more }}}}", "in t"), HELLO, ())
    assert str(found).startswith("line 2 of the chat template in t cannot be rendered: UndefinedError: ")
    with_tools = Template(SOUND + "{% if tools %}\n{{ tools[0].a.b }}{% endif %}", "in t")
    assert fault(with_tools, HELLO, ()) is None
    assert str(fault(with_tools, HELLO, [{}])).startswith("line 2 of the chat template in t cannot be rendered")


@pytest.mark.parametrize("text", ["{{ messages[0].content + 1 }}", "{{ raise_exception('no') }}", "{{ none.x.y }}"])
def test_what_the_caller_holds_is_free_afterwards(text: str) -> None:
    """A program's model and its license are given back at once, not when garbage is collected."""

    class Model:
        """Stands for what a caller's frame holds."""

    def load() -> weakref.ref[Model]:
        model = Model()
        fault(Template(text, "here"), [{"role": "user", "content": "Hello"}], ())
        return weakref.ref(model)

    gc.disable()
    try:
        assert load()() is None
    finally:
        gc.enable()
