"""What models of each family write: a thought where they think, and one call of a tool, in the form of their templates.

A sample is named after its checkpoint in server/tests/launch/checkpoints, which has the marks and the tokens of the
family. `parse_samples` reads them inside the serving image; nothing of the engine is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}
CALL = {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}
THOUGHT = "The user asks for weather."

JSON = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
ARGUMENTS = '{"city": "Paris", "days": 3}'
HERMES = f"<tool_call>\n{JSON}\n</tool_call>"
XML = "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>"
QWEN_XML = f"<tool_call>\n{XML}\n</tool_call>"
MIMO_XML = (
    "<tool_call>\n<function=get_weather><parameter=city>Paris</parameter><parameter=days>3</parameter></function>\n"
    "</tool_call>"
)
GLM_XML = (
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
)
DEEPSEEK_V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    f"{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DEEPSEEK_V31 = (
    f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{ARGUMENTS}"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
DSML = (
    '<｜DSML｜NAME>\n<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜NAME>'
)
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>"
)
PYTHONIC = 'get_weather(city="Paris", days=3)'
MINIMAX_M2 = (
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>'
)
NS = "]<]minimax[>["
MINIMAX_M3 = (
    f'{NS}<tool_call>\n{NS}<invoke name="get_weather">\n{NS}<city>Paris{NS}</city>\n{NS}<days>3{NS}</days>\n'
    f"{NS}</invoke>\n{NS}</tool_call>"
)
STEP3 = (
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="get_weather"><steptml:parameter name="city">Paris</steptml:parameter>'
    '<steptml:parameter name="days">3</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>'
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the model writes after its prompt, and what the API must answer."""

    checkpoint: str
    tools: str
    """The parser that reads it."""
    text: str
    reasoning: str = ""
    """The other parser; empty where the model does not think."""
    prompt: str = "assistant\n"
    """The end of the rendered prompt."""
    options: tuple[tuple[str, bool], ...] = ()
    """`chat_template_kwargs` of the request."""
    is_untaken: bool = False
    """The engine's parsers get it wrong, so the table does not take them by itself."""
    breaks_by_several: bool = False
    """They get it wrong where a step of the engine gives several tokens."""

    @property
    def thought(self) -> str:
        """The reasoning that the API must answer."""
        return THOUGHT if THOUGHT in self.text else ""


def thinks(opened: bool, call: str, start: str = "<think>", end: str = "</think>") -> str:
    """A thought and a call; `opened` where the prompt has the start already."""
    return ("" if opened else f"{start}\n") + f"{THOUGHT}\n{end}\n\n{call}"


OPEN = "assistant\n<think>\n"
SAMPLES: tuple[Sample, ...] = (
    Sample("qwen2.5", "hermes", HERMES),
    Sample("qwen3", "hermes", thinks(False, HERMES), "qwen3"),
    Sample("qwen3-instruct-2507", "hermes", HERMES),
    Sample("qwen3-vl-instruct", "hermes", HERMES),
    Sample("qwen3-thinking-2507", "hermes", thinks(True, HERMES), "qwen3", OPEN),
    Sample("qwen3-coder", "qwen3_coder", QWEN_XML),
    Sample("qwen3.5", "qwen3_coder", thinks(True, QWEN_XML), "qwen3", OPEN),
    Sample("qwq", "hermes", thinks(True, HERMES), "deepseek_r1", OPEN),
    Sample("hermes-2-pro", "hermes", HERMES),
    Sample("nemotron-3", "qwen3_coder", thinks(True, QWEN_XML), "nemotron_v3", OPEN),
    Sample("llama-3.1", "llama3_json", JSON.replace("arguments", "parameters")),
    Sample("llama-4", "llama4_pythonic", f"<|python_start|>[{PYTHONIC}]<|python_end|>"),
    Sample("llama-4-pythonic", "llama4_pythonic", f"[{PYTHONIC}]"),
    Sample("llama-3.2-pythonic", "pythonic", f"[{PYTHONIC}]"),
    Sample("deepseek-v3", "deepseek_v3", DEEPSEEK_V3, prompt="<｜Assistant｜>"),
    Sample("deepseek-r1", "deepseek_v3", thinks(True, DEEPSEEK_V3), "deepseek_r1", "<｜Assistant｜><think>\n"),
    Sample("deepseek-v3.1", "deepseek_v31", DEEPSEEK_V31, "deepseek_v3", "<｜Assistant｜></think>",
           breaks_by_several=True),
    Sample("deepseek-v3.1", "deepseek_v31", thinks(True, DEEPSEEK_V31), "deepseek_v3", "<｜Assistant｜><think>",
           (("thinking", True),), breaks_by_several=True),
    Sample("deepseek-v3.2", "deepseek_v32", DSML.replace("NAME", "function_calls"), "deepseek_v3", "</think>"),
    Sample("deepseek-v4", "deepseek_v4", DSML.replace("NAME", "tool_calls"), "deepseek_v4", "</think>"),
    Sample("glm-4.6", "glm45", thinks(False, GLM_XML), "glm45", "<|assistant|>"),
    Sample("ling-3", "ling3", thinks(False, GLM_XML), "ling3", "<|assistant|>"),
    Sample("kimi-k2", "kimi_k2", KIMI),
    Sample("kimi-k2-thinking", "kimi_k2", thinks(False, KIMI), "kimi_k2"),
    Sample("mistral-small-3.1", "mistral", f"[TOOL_CALLS][{JSON}]"),
    Sample("devstral", "mistral", f"[TOOL_CALLS]get_weather{ARGUMENTS}"),
    Sample("magistral", "mistral", f"[THINK]{THOUGHT}[/THINK][TOOL_CALLS]get_weather{ARGUMENTS}", "mistral"),
    Sample("phi-4-mini", "phi4_mini_json", f"functools[{JSON}]", is_untaken=True),
    Sample("phi-4-reasoning", "", f"<think>\n{THOUGHT}\n</think>\n", "deepseek_r1", breaks_by_several=True),
    Sample("granite-3.3", "granite", f"<|tool_call|>[{JSON}]"),
    Sample("granite-3.3", "granite", f"<|tool_call|>[{JSON}]", "granite", is_untaken=True),
    Sample("granite-3.3", "granite", f"Here is my thought process:\n{THOUGHT}\nHere is my response:\n"
           f"<|tool_call|>[{JSON}]", "granite", options=(("thinking", True),), is_untaken=True),
    Sample("granite-4", "granite4", HERMES),
    Sample("granite-4.2", "qwen3_coder", thinks(True, QWEN_XML), "granite_thinking_parser", OPEN),
    Sample("granite-20b-fc", "granite-20b-fc", f"<function_call> {JSON}"),
    Sample("minimax-m2", "minimax_m2", thinks(True, MINIMAX_M2), "minimax_m2", "]~b]ai\n<think>\n"),
    Sample("minimax-m3", "minimax_m3", thinks(False, MINIMAX_M3, "<mm:think>", "</mm:think>"), "minimax_m3"),
    Sample("mimo-v2", "mimo", thinks(True, MIMO_XML), "mimo", OPEN),
    Sample("step-3.5", "step3p5", thinks(True, QWEN_XML), "step3p5", OPEN),
    Sample("step-3", "step3", thinks(True, STEP3), "step3", OPEN, breaks_by_several=True),
    Sample("seed-oss", "seed_oss", thinks(False, f"<seed:tool_call>\n{XML}\n</seed:tool_call>", "<seed:think>",
           "</seed:think>"), "seed_oss"),
    Sample("gemma-4", "gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>', "gemma4",
           "<|turn>model\n<|channel>thought\n<channel|>"),
    Sample("gemma-4", "gemma4", f"<|channel>thought\n{THOUGHT}<channel|>"
           '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>', "gemma4", "<|turn>model\n",
           (("enable_thinking", True),)),
    Sample("functiongemma", "functiongemma", "<start_function_call>call:get_weather{city:<escape>Paris<escape>,"
           "days:3}<end_function_call>", is_untaken=True),
    Sample("olmo-3-instruct", "olmo3", f"<function_calls>{PYTHONIC}</function_calls>"),
    Sample("olmo-3-think", "olmo3", thinks(True, f"<function_calls>{PYTHONIC}</function_calls>"), "olmo3", OPEN,
           is_untaken=True),
    Sample("ernie-4.5-thinking", "ernie45", thinks(True, HERMES), "ernie45", OPEN),
    Sample("hunyuan-a13b", "hunyuan_a13b", f"<tool_calls>[{JSON}]</tool_calls>", is_untaken=True),
    Sample("jamba", "jamba", f"<tool_calls>[\n    {JSON}\n]</tool_calls>", is_untaken=True),
    Sample("lfm2", "lfm2", f"<|tool_call_start|>[{PYTHONIC}]<|tool_call_end|>"),
    Sample("apertus", "apertus", f'<|tools_prefix|>[{{"get_weather": {ARGUMENTS}}}]<|tools_suffix|>'),
    Sample("internlm-2.5", "internlm", f'<|action_start|><|plugin|>{JSON.replace("arguments", "parameters")}'
           "<|action_end|>"),
    Sample("longcat-flash", "longcat", f"<longcat_tool_call>\n{JSON}\n</longcat_tool_call>"),
)  # fmt: skip
