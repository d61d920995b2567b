"""Which chat template, tool parser and stop tokens a model gets by its name, as rows. Pure.

`adjust` asks `find` and `match` and turns a row into settings; the reference page is printed from the same rows. The
templates are package data, in `windlass/templates`. The rows' order counts: the first that fits wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass_sizing.quantization.limits import VISION_INSTEAD
from windlass_sizing.settings.values import Value

DIRECTORY = Path(__file__).parent.parent / "templates"
CHAT = ("instruct", "chat")
EOS = "eos_token_id"


@dataclass(frozen=True, slots=True)
class IdRule:
    """Words of a model's id, in small letters: all of `every`, one of `some`, none of `none`."""

    every: tuple[str, ...] = ()
    some: tuple[str, ...] = ()
    none: tuple[str, ...] = ()

    def fits(self, model_id: str) -> bool:
        """Whether the id has these words; a rule without words fits nothing."""
        has = model_id.lower().__contains__
        wanted = all(map(has, self.every)) and (not self.some or any(map(has, self.some)))
        return bool(self.every or self.some) and wanted and not any(map(has, self.none))


@dataclass(frozen=True, slots=True)
class Row:
    """What the models of one name get."""

    name: str
    models: str
    ids: IdRule = IdRule()
    aliases: tuple[str, ...] = ()
    template: str = ""
    """A file of `windlass/templates`; empty keeps the model's own."""
    parser: str = ""
    """Also switches automatic tool choice on."""
    settings: tuple[tuple[str, Value], ...] = ()
    stops: tuple[int, ...] = ()
    guessed: bool = False
    """The models' format is not published, so a template that the model brings goes first."""
    without_tools: bool = False
    """The models were published without tools. A model of a later generation bears the name too: where its own template
    reads the tools of a request, the id does not match this row."""
    instead: str = ""
    """What to serve in place of models that the engine no longer has."""

    @property
    def additions(self) -> tuple[tuple[str, Value], ...]:
        """Settings by their names, the stop tokens excepted."""
        template = (("chat-template", str(DIRECTORY / self.template)),) if self.template else ()
        tools = (("enable-auto-tool-choice", True), ("tool-call-parser", self.parser)) if self.parser else ()
        return (*template, *tools, *self.settings)


ROWS: tuple[Row, ...] = (
    Row("generate", "models without a chat format", template="generate.jinja"),
    Row("hunyuan", "Hunyuan Large", IdRule(("hunyuan-large",)), template="hunyuan.jinja", stops=(127960, 127967)),
    Row("shennong_chat", "Shennong industry models", IdRule(some=("shennong", "sn-")), template="shennong.jinja",
        guessed=True),
    Row("llama-3.2-vision", "Llama 3.2 Vision Instruct", IdRule(("llama-3.2", "vision"), CHAT),
        parser="llama3_json", settings=(("enforce-eager", True), ("max-num-seqs", 8)), instead=VISION_INSTEAD),
    Row("llama-3.2", "Llama 3.2 Instruct", IdRule(("llama-3.2",), CHAT, ("vision",)),
        template="llama3.2_json.jinja", parser="llama3_json"),
    Row("llama-3.1", "Llama 3.1 Instruct", IdRule(("llama-3.1",), CHAT),
        template="llama3.1_json.jinja", parser="llama3_json"),
    Row("qwen2.5", "Qwen2.5 Instruct", IdRule(("qwen2.5",), CHAT), parser="hermes"),
    Row("baichuan2-chat", "Baichuan2 Chat", IdRule(("baichuan2",), CHAT), template="baichuan.jinja"),
    Row("llama-2", "Llama 2 Chat", IdRule(("llama-2",), CHAT), template="llama2.jinja"),
    Row("llama-3", "Llama 3 Instruct", IdRule(("llama-3-",), CHAT), template="llama3.jinja", stops=(128001, 128009)),
    Row("qwen", "Qwen, Qwen1.5 and Qwen2 Chat", IdRule(("qwen",), CHAT, ("vl",)), ("qwen-7b-chat",), "qwen.jinja",
        stops=(151643, 151644, 151645), without_tools=True),
    # By name only: older models, whose ids no rule names.
    Row("baichuan-chat", "Baichuan-13B Chat", template="baichuan1.jinja"),
    Row("chatglm3", "ChatGLM3-6B", template="chatglm3.jinja", stops=(64795, 64797)),
    Row("chatglm2", "ChatGLM2-6B", template="chatglm2.jinja"),
)  # fmt: skip

BY_NAME: dict[str, Row] = {name: row for row in ROWS for name in (row.name, *row.aliases)}

GONE = (
    "MllamaForConditionalGeneration",
    "BaichuanForCausalLM",
    "BaiChuanForCausalLM",
    "QWenLMHeadModel",
)
"""Architectures behind rows of the table that the engine gave up."""


def find(name: str) -> Row | None:
    """The row of a CONV_TEMPLATE or conv_template_name."""
    return BY_NAME.get(name.lower())


def match(model_id: str, *, shows_tools: bool = False) -> Row | None:
    """The first row whose words are in a model's id; `shows_tools`: the model's own template reads tools."""
    return next((row for row in ROWS if row.ids.fits(model_id) and not (row.without_tools and shows_tools)), None)


def own_stops(generation: Mapping[str, object]) -> tuple[int, ...]:
    """The stop tokens that the model brings."""
    said = generation.get(EOS)
    ids = said if isinstance(said, list) else [said]
    return tuple(token for token in ids if isinstance(token, int))


def more_stops(row: Row, generation: Mapping[str, object], vocab_size: int | None) -> tuple[int, ...]:
    """The row's stop tokens that the model does not bring. A number past its vocabulary would crash the engine."""
    own = own_stops(generation)
    return tuple(token for token in row.stops if token not in own and (vocab_size is None or token < vocab_size))


def generation_config(generation: Mapping[str, object], more: tuple[int, ...]) -> str:
    """The model's generation_config.json with stop tokens beside its own."""
    stops = dict.fromkeys((*own_stops(generation), *more))
    return json.dumps({**generation, EOS: list(stops)}, indent=2, sort_keys=True) + "\n"
