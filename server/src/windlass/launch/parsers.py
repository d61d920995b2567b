"""Which parsers of the engine read a model's tool calls and reasoning, by the checkpoint's own marks, as rows. Pure.

`adjust` asks where table T named no parser; the reference page is printed from the same rows. The rows' order does not
count: a parser is taken when the rows that fit name one alone. The engine ends at its start when a parser lacks a token
in the tokenizer, so a row says which tokens its parser needs. tests/engine/launch/parser_samples.py holds each parser
to text of its models, streamed and not; a parser that gets it wrong is named to the user, and not taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.launch.marks import Marks, compact

HERMES_NAME, HERMES_ARGUMENTS = '<tool_call>{"name"', '<tool_call>{"arguments"'
LLAMA_JSON = '{"name": function name, "parameters"'
PYTHONIC = "[func_name1(param"
DEEPSEEK_CALL = ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")
DEEPSEEK_TOKENS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
KIMI_TOKENS = ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>")
QWEN_XML = ("<function=", "<parameter=")
GLM_XML = ("<tool_call>", "<arg_key>", "<arg_value>")
THINK = ("<think>", "</think>")
TOOL_FLAGS = "--enable-auto-tool-choice --tool-call-parser"
NO_STREAM = "streamed answers lose their tool calls"


@dataclass(frozen=True, slots=True)
class Rule:
    """Marks that a checkpoint must have; what is empty asks nothing."""

    family: tuple[str, ...] = ()
    """The architecture begins with one of these."""
    others: tuple[str, ...] = ()
    """The architecture begins with none of these."""
    says: tuple[str, ...] = ()
    """The chat template holds all of these, blanks left out."""
    lacks: tuple[str, ...] = ()
    """The chat template holds none of these."""
    prompt: tuple[str, ...] = ()
    """The template's generation prompt holds all of these."""
    prompt_lacks: tuple[str, ...] = ()
    """The generation prompt holds none of these."""
    tokens: tuple[str, ...] = ()
    is_mistral_format: bool = False

    def fits(self, marks: Marks) -> bool:
        """Whether the checkpoint has the marks."""
        if self.family and not marks.architecture.startswith(self.family):
            return False
        template, prompt = compact(marks.template), compact(marks.prompt)
        return (
            not (self.others and marks.architecture.startswith(self.others))
            and all(compact(mark) in template for mark in self.says)
            and not any(compact(mark) in template for mark in self.lacks)
            and all(compact(mark) in prompt for mark in self.prompt)
            and not any(compact(mark) in prompt for mark in self.prompt_lacks)
            and marks.tokens.issuperset(self.tokens)
            and (marks.is_mistral_format or not self.is_mistral_format)
        )

    def named(self, architecture: str = "") -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The marks by what has them; of an architecture, where one is given."""
        families = (architecture,) if self.family and architecture else tuple(f"{name}…" for name in self.family)
        tokenizer = ("of mistral-common",) if self.is_mistral_format else ()
        kinds = (
            ("architecture", families),
            ("template", self.says),
            ("generation prompt", self.prompt),
            ("tokens", self.tokens),
            ("tokenizer", tokenizer),
        )
        return tuple((name, values) for name, values in kinds if values)

    def shown(self, architecture: str) -> str:
        """The marks as words."""
        return "; ".join(f"{name} {' '.join(values)}" for name, values in self.named(architecture))


@dataclass(frozen=True, slots=True)
class Row:
    """A parser of the engine, by its registered name, and the marks of the models that it reads."""

    parser: str
    models: str
    rule: Rule
    needs: tuple[str, ...] = ()
    """Tokens without which the engine refuses the parser."""
    loses: str = ""
    """What the engine's parser does wrong with this form, so that it is not taken by itself."""
    template: str = ""
    """A file of `windlass/templates` in place of the model's own, whose form no parser of the engine reads."""


@dataclass(frozen=True, slots=True)
class FoundParser:
    """The parser of a checkpoint, empty for none; `why` says which marks decided, or what to do instead."""

    parser: str = ""
    why: str = ""
    template: str = ""


TOOLS: tuple[Row, ...] = (
    Row("hermes", "Qwen2.5, Qwen3, QwQ, Hermes, SmolLM3", Rule(others=("Granite", "Ernie4_5"), says=(HERMES_NAME,))),
    Row("hermes", "Hermes 2 Pro, Hermes 3", Rule(others=("Granite", "Ernie4_5"), says=(HERMES_ARGUMENTS,))),
    Row("qwen3_coder", "Qwen3-Coder, Qwen3.5, Nemotron 3",
        Rule(others=("MiMoV2", "Step3p"), says=("<tool_call>", *QWEN_XML), lacks=("<seed:tool_call>",))),
    Row("mimo", "MiMo-V2", Rule(("MiMoV2",), says=QWEN_XML)),
    Row("step3p5", "Step-3.5, Step-3.7", Rule(("Step3p",), says=QWEN_XML)),
    Row("seed_oss", "Seed-OSS", Rule(says=("<seed:tool_call>", *QWEN_XML))),
    Row("llama3_json", "Llama 3.1, 3.2 and 3.3", Rule(others=("Llama4",), says=(LLAMA_JSON,)), ("<|python_tag|>",)),
    Row("llama4_pythonic", "Llama 4 with a pythonic template", Rule(("Llama4",), says=(PYTHONIC,))),
    # Its own template asks for JSON, and the tokenizer lacks <|python_tag|>, which the parser of that JSON needs.
    Row("llama4_pythonic", "Llama 4", Rule(("Llama4",), says=(LLAMA_JSON,)), template="llama4_pythonic.jinja"),
    Row("pythonic", "Llama 3.2 and Gemma 3 with a pythonic template", Rule(others=("Llama4",), says=(PYTHONIC,))),
    Row("deepseek_v3", "DeepSeek V3, DeepSeek R1",
        Rule(("DeepseekV3For",), says=(*DEEPSEEK_CALL, "```json")), DEEPSEEK_TOKENS),
    Row("deepseek_v31", "DeepSeek V3.1",
        Rule(("DeepseekV3For",), says=DEEPSEEK_CALL, lacks=("```json",)), DEEPSEEK_TOKENS),
    Row("deepseek_v32", "DeepSeek V3.2", Rule(("DeepseekV32For",))),
    Row("deepseek_v4", "DeepSeek V4", Rule(("DeepseekV4For",))),
    Row("openai", "gpt-oss", Rule(("GptOssFor",))),
    Row("glm45", "GLM-4.5, 4.6, 4.7 and 5", Rule(("Glm",), says=GLM_XML)),
    Row("ling3", "Ling 3", Rule(("BailingMoeV3",), says=GLM_XML)),
    Row("mistral", "Mistral, Mixtral, Devstral and Magistral with a chat template", Rule(says=("[TOOL_CALLS]",)),
        ("[TOOL_CALLS]",)),
    Row("mistral", "Mistral, Devstral and Magistral as mistral-common stores them", Rule(is_mistral_format=True)),
    Row("kimi_k2", "Kimi-K2, Kimi-K2.5", Rule(says=("tool_declare",), tokens=KIMI_TOKENS)),
    Row("phi4_mini_json", "Phi-4-mini with a template for tools", Rule(says=("functools[",)), loses=NO_STREAM),
    Row("granite", "Granite 3.0 to 3.3", Rule(("Granite",), says=("<|tool_call|>",))),
    Row("granite4", "Granite 4", Rule(("Granite",), says=(HERMES_NAME,), lacks=("<|tool_call|>",))),
    Row("granite-20b-fc", "Granite 20B function calling", Rule(("GPTBigCode",), says=("<function_call>",))),
    Row("minimax_m2", "MiniMax-M2", Rule(says=("<minimax:tool_call>", "<invoke name="))),
    Row("minimax_m3", "MiniMax-M3", Rule(("MiniMaxM3",), says=("]<]minimax[>[",))),
    Row("gemma4", "Gemma 4", Rule(("Gemma4",), says=("<|tool_call>call:",))),
    Row("functiongemma", "FunctionGemma", Rule(("Gemma3",), says=("<start_function_call>",)),
        loses="it leaves out arguments that are numbers"),
    Row("olmo3", "Olmo 3", Rule(("Olmo3",), says=("<function_calls>",))),
    Row("ernie45", "ERNIE 4.5", Rule(("Ernie4_5",), says=(HERMES_NAME,))),
    Row("hunyuan_a13b", "Hunyuan-A13B", Rule(("HunYuanMoEV1",), says=("<tool_calls>",)),
        loses="streamed answers hold its mark <tool_calls> as text"),
    Row("jamba", "Jamba 1.5 and later", Rule(("Jamba",), says=("<tool_calls>",)), ("<tool_calls>", "</tool_calls>"),
        "streamed answers lose characters of the arguments"),
    Row("lfm2", "LFM2", Rule(("Lfm2",), tokens=("<|tool_call_start|>", "<|tool_call_end|>"))),
    Row("apertus", "Apertus", Rule(("Apertus",), says=("<|tools_prefix|>",))),
    Row("internlm", "InternLM 2.5 with a template for tools", Rule(("InternLM2",), says=("<|plugin|>",))),
    Row("longcat", "LongCat-Flash", Rule(says=("<longcat_tool_call>",))),
    Row("step3", "Step-3", Rule(("Step3VL", "Step3Text"), says=("<steptml:invoke",))),
)  # fmt: skip

REASONING: tuple[Row, ...] = (
    Row("qwen3", "Qwen3 and Qwen3.5 that think", Rule(("Qwen3",), prompt=("<think>",))),
    Row("deepseek_r1", "DeepSeek R1, its distillations, QwQ",
        Rule(("DeepseekV3For", "Qwen2For", "LlamaFor"), prompt=("<think>",), prompt_lacks=("thinking", "</think>")),
        THINK),
    Row("deepseek_r1", "Phi-4-reasoning", Rule(("Phi3For",), says=("<think> {Thought section} </think>",)), THINK),
    Row("deepseek_v3", "DeepSeek V3.1", Rule(("DeepseekV3For",), prompt=("thinking", *THINK)), THINK),
    Row("deepseek_v3", "DeepSeek V3.2", Rule(("DeepseekV32For",)), THINK),
    Row("deepseek_v4", "DeepSeek V4", Rule(("DeepseekV4For",))),
    Row("openai_gptoss", "gpt-oss", Rule(("GptOssFor",))),
    Row("glm45", "GLM-4.5, 4.6, 4.7 and 5", Rule(("Glm",), says=GLM_XML, prompt=("<think>",))),
    Row("ling3", "Ling 3", Rule(("BailingMoeV3",), says=GLM_XML, prompt=("<think>",))),
    Row("mistral", "Magistral", Rule(tokens=("[THINK]", "[/THINK]"))),
    Row("kimi_k2", "Kimi-K2-Thinking, Kimi-K2.5", Rule(says=("tool_declare", "<think>"), tokens=KIMI_TOKENS)),
    Row("granite", "Granite 3.2", Rule(("Granite",), says=("Here is my thought process:",)), loses=NO_STREAM),
    Row("granite_thinking_parser", "Granite 4.2", Rule(("Granite",), says=QWEN_XML, prompt=("<think>",))),
    Row("minimax_m2", "MiniMax-M2", Rule(says=("<minimax:tool_call>",), prompt=("<think>",)), THINK),
    Row("minimax_m3", "MiniMax-M3", Rule(("MiniMaxM3",)), ("<mm:think>", "</mm:think>")),
    Row("nemotron_v3", "Nemotron 3", Rule(("NemotronH",), says=QWEN_XML, prompt=("<think>",))),
    Row("mimo", "MiMo-V2", Rule(("MiMoV2",), prompt=("<think>",))),
    Row("step3", "Step-3", Rule(("Step3VL", "Step3Text"), prompt=("<think>",)), THINK),
    Row("step3p5", "Step-3.5, Step-3.7", Rule(("Step3p",), prompt=("<think>",))),
    Row("seed_oss", "Seed-OSS", Rule(says=("<seed:think>", "<seed:tool_call>"))),
    Row("gemma4", "Gemma 4", Rule(("Gemma4",), says=("<|channel>",))),
    Row("olmo3", "Olmo 3 Think", Rule(("Olmo3",), prompt=("<think>",)), loses=NO_STREAM),
    Row("ernie45", "ERNIE 4.5 Thinking", Rule(("Ernie4_5",), prompt=("<think>",)), THINK),
)  # fmt: skip


def tools(marks: Marks) -> FoundParser:
    """The parser of the model's tool calls."""
    found = _one(TOOLS, marks, TOOL_FLAGS)
    if found.parser or found.why or not marks.shows_tools:
        return found
    return FoundParser(why=f"no known parser reads the chat template's form of tool calls; name one with {TOOL_FLAGS}")


def reasoning(marks: Marks) -> FoundParser:
    """The parser of the model's reasoning."""
    found = _one(REASONING, marks, "--reasoning-parser")
    if found.parser or found.why or THINK[0] not in marks.prompt:
        return found
    return FoundParser(
        why="the generation prompt has <think>, and no known parser is for it; name one: --reasoning-parser"
    )


def _one(rows: Iterable[Row], marks: Marks, flag: str) -> FoundParser:
    """The parser that all fitting rows name, else why none is taken; neither where no row fits."""
    fitting = [row for row in rows if row.rule.fits(marks)]
    names = tuple(dict.fromkeys(row.parser for row in fitting))
    if len(names) > 1:
        return FoundParser(why=f"the checkpoint's marks fit the parsers {' and '.join(names)}; choose one with {flag}")
    if not fitting:
        return FoundParser()
    row = fitting[0]
    if missing := [token for token in row.needs if token not in marks.tokens]:
        return FoundParser(
            why=f"the tokenizer lacks {missing[0]}, which parser {row.parser} needs; name another with {flag}"
        )
    if row.loses:
        return FoundParser(
            why=f"{row.parser} is for this checkpoint, but {row.loses}; to take it, set {flag} {row.parser}"
        )
    return FoundParser(row.parser, row.rule.shown(marks.architecture), row.template)
