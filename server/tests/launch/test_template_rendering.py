"""What each chat template writes, against prompts as the models' authors publish them."""

import json
from datetime import date

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from windlass.launch import templates

SYSTEM = {"role": "system", "content": "Be brief."}
TURNS = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi there"},
    {"role": "user", "content": "Who are you?"},
]
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALL = {"type": "function", "id": "c1", "function": {"name": "weather", "arguments": {"city": "Köln"}}}
TOOL_TURNS = [
    {"role": "user", "content": "Rain in Köln?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"rain": true}'},
]
WEATHER_JSON = """{
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {
                    "type": "string"
                }
            }
        }
    }
}"""
WITHOUT_SYSTEM = (
    "You are a helpful assistant with tool calling capabilities. Call a function only if it is in the list; "
    "otherwise answer in plain words. When the output of a function arrives, answer the original question with it."
)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def render(file: str, messages: list[dict], *, prompt: bool = True, **given: object) -> str:
    """As transformers renders a chat template."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def to_json(value: object, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": date(2026, 7, 4).strftime}
    template = environment.from_string((templates.DIRECTORY / file).read_text(encoding="utf-8"))
    return template.render(messages=messages, add_generation_prompt=prompt, **given)


RENDERED = [
    ("generate.jinja", [SYSTEM, *TURNS], "<s>Be brief.HelloHi thereWho are you?"),
    (
        "hunyuan.jinja",
        [SYSTEM, *TURNS],
        "<|startoftext|>Be brief.<|extra_4|>Hello<|extra_0|>Hi there<|eos|><|startoftext|>Who are you?<|extra_0|>",
    ),
    (
        "hunyuan.jinja",
        TURNS,
        "<|startoftext|>Hello<|extra_0|>Hi there<|eos|><|startoftext|>Who are you?<|extra_0|>",
    ),
    (
        "shennong.jinja",
        [SYSTEM, *TURNS],
        "<s>Be brief.\n\nUser: Hello\n\nAssistant: Hi there\n\nUser: Who are you?\n\nAssistant:",
    ),
    (
        "baichuan.jinja",
        [SYSTEM, *TURNS],
        "Be brief.<reserved_106>Hello<reserved_107>Hi there<reserved_106>Who are you?<reserved_107>",
    ),
    (
        "baichuan1.jinja",
        TURNS,
        "<reserved_102>Hello<reserved_103>Hi there<reserved_102>Who are you?<reserved_103>",
    ),
    (
        "chatglm2.jinja",
        TURNS,
        "[Round 1]\n\n问：Hello\n\n答：Hi there\n\n[Round 2]\n\n问：Who are you?\n\n答：",
    ),
    ("chatglm2.jinja", [SYSTEM, TURNS[0]], "[Round 1]\n\n问：Be brief.\n\nHello\n\n答："),
    (
        "chatglm3.jinja",
        [SYSTEM, *TURNS],
        "[gMASK]sop<|system|>\n Be brief.<|user|>\n Hello<|assistant|>\n Hi there<|user|>\n Who are you?<|assistant|>",
    ),
    (
        "llama2.jinja",
        [SYSTEM, *TURNS],
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHello [/INST] Hi there </s><s>[INST] Who are you? [/INST]",
    ),
    ("llama2.jinja", TURNS, "<s>[INST] Hello [/INST] Hi there </s><s>[INST] Who are you? [/INST]"),
    (
        "llama3.jinja",
        [SYSTEM, *TURNS],
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHi there<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    (
        "qwen.jinja",
        [SYSTEM, *TURNS],
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
        "<|im_start|>assistant\nHi there<|im_end|>\n<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n",
    ),
    (
        "qwen.jinja",
        TURNS[:1],
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    ),
    *(
        (
            f"llama3.{version}_json.jinja",
            [SYSTEM, *TURNS],
            "<s><|start_header_id|>system<|end_header_id|>\n\n"
            "Cutting Knowledge Date: December 2023\nToday Date: 04 Jul 2026\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHi there<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nWho are you?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        )
        for version in (1, 2)
    ),
    (
        "llama4_pythonic.jinja",
        [SYSTEM, *TURNS],
        "<s><|header_start|>system<|header_end|>\n\nBe brief.<|eot|><|header_start|>user<|header_end|>\n\nHello<|eot|>"
        "<|header_start|>assistant<|header_end|>\n\nHi there<|eot|>"
        "<|header_start|>user<|header_end|>\n\nWho are you?<|eot|><|header_start|>assistant<|header_end|>\n\n",
    ),
    (
        "llama4_pythonic.jinja",
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}],
        "<s><|header_start|>user<|header_end|>\n\n<|image|>What is it?<|eot|>"
        "<|header_start|>assistant<|header_end|>\n\n",
    ),
]


@pytest.mark.parametrize(
    ("file", "messages", "expected"), RENDERED, ids=[f"{n}-{r[0]}" for n, r in enumerate(RENDERED)]
)
def test_rendering(file: str, messages: list[dict], expected: str) -> None:
    """Each template writes the prompt that its models were trained on."""
    assert expected == render(file, messages, **TOKENS)


@pytest.mark.parametrize(
    ("file", "mark"),
    [
        ("shennong.jinja", "Assistant:"),
        ("baichuan.jinja", "<reserved_107>"),
        ("baichuan1.jinja", "<reserved_103>"),
        ("chatglm3.jinja", "<|assistant|>"),
        ("llama3.jinja", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
        ("llama3.1_json.jinja", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
        ("llama3.2_json.jinja", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
        ("llama4_pythonic.jinja", "<|header_start|>assistant<|header_end|>\n\n"),
        ("qwen.jinja", "<|im_start|>assistant\n"),
    ],
)
def test_generation_prompt_is_the_last_word(file: str, mark: str) -> None:
    """Without add_generation_prompt the same text ends before the answer's mark."""
    assert render(file, TURNS, **TOKENS) == render(file, TURNS, prompt=False, **TOKENS) + mark


def test_generate_needs_no_tokens() -> None:
    """A tokenizer without a first token leaves its place empty."""
    assert render("generate.jinja", TURNS[:1]) == "Hello"
    assert render("generate.jinja", TURNS[:1], bos_token=None) == "Hello"


def test_chatglm3_observation() -> None:
    """A tool's result is an observation."""
    assert render("chatglm3.jinja", TOOL_TURNS[2:]) == '[gMASK]sop<|observation|>\n {"rain": true}<|assistant|>'


CALLED_AND_ANSWERED = (
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
    '{"name": "weather", "parameters": {"city": "Köln"}}<|eot_id|>'
    "<|start_header_id|>ipython<|end_header_id|>\n\n"
    '{"output": "{\\"rain\\": true}"}<|eot_id|>'
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
)
HOW = (
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. '
    "Do not use variables.\n\n"
)
IN_QUESTION = (
    "<s><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n"
    "Cutting Knowledge Date: December 2023\nToday Date: 04 Jul 2026\n\n" + WITHOUT_SYSTEM + "<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n"
    "Given the following functions, please respond with a JSON for a function call "
    "with its proper arguments that best answers the given prompt.\n\n"
    + HOW
    + WEATHER_JSON
    + "\n\nRain in Köln?<|eot_id|>"
    + CALLED_AND_ANSWERED
)
IN_SYSTEM = (
    "<s><|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n"
    "Cutting Knowledge Date: December 2023\nToday Date: 04 Jul 2026\n\n"
    "You have access to the following functions. To call a function, please respond with JSON for a function call. "
    + HOW
    + WEATHER_JSON
    + "\n\n"
    + WITHOUT_SYSTEM
    + "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nRain in Köln?<|eot_id|>"
    + CALLED_AND_ANSWERED
)


@pytest.mark.parametrize(
    ("file", "given", "expected"),
    [
        pytest.param("llama3.1_json.jinja", {}, IN_QUESTION, id="3.1"),
        pytest.param("llama3.1_json.jinja", {"tools_in_user_message": False}, IN_SYSTEM, id="3.1-system"),
        pytest.param("llama3.2_json.jinja", {}, IN_SYSTEM, id="3.2"),
        pytest.param("llama3.2_json.jinja", {"tools_in_user_message": True}, IN_QUESTION, id="3.2-question"),
    ],
)
def test_tools(file: str, given: dict, expected: str) -> None:
    """V2: the list of functions, a call and its result."""
    assert expected == render(file, TOOL_TURNS, tools=[WEATHER], **TOKENS, **given)


@pytest.mark.parametrize("file", ["llama3.1_json.jinja", "llama3.2_json.jinja"])
def test_one_call_a_turn(file: str) -> None:
    """These models were trained on single calls; more are refused with a sentence."""
    twice = {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}
    with pytest.raises(jinja2.TemplateError, match="calls one tool a turn; send one tool call"):
        render(file, [TURNS[0], twice], tools=[WEATHER], **TOKENS)


def test_llama4_calls_as_python_does() -> None:
    """Several calls a turn, each value as a literal, and the result as text in quotes."""
    arguments = {"city": "Köln", "days": 3, "exact": True, "unit": None}
    calls = [{"function": {"name": "weather", "arguments": arguments}}, {"function": {"name": "now", "arguments": {}}}]
    turns = [TURNS[0], {"role": "assistant", "content": None, "tool_calls": calls}, TOOL_TURNS[2]]
    text = render("llama4_pythonic.jinja", turns, tools=[WEATHER], **TOKENS)
    assert WEATHER_JSON + "\n\n<|eot|>" in text
    assert text.endswith(
        '[weather(city="Köln", days=3, exact=True, unit=None), now()]<|eot|>'
        '<|header_start|>ipython<|header_end|>\n\n"{\\"rain\\": true}"<|eot|>'
        "<|header_start|>assistant<|header_end|>\n\n"
    )
