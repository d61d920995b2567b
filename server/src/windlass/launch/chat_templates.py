"""Finds the chat templates that the engine renders, and renders a word with them before it starts. Part of the shell.

A template that refuses the word by itself passes: some models take pictures or pairs of languages only.
"""

from __future__ import annotations

from pathlib import Path

from windlass_sizing.files import documents

from windlass.engine.integrations import release
from windlass.engine.startup import chat_template
from windlass.engine.startup.chat_template import Template
from windlass.engine.startup.first_chat import HELLO, TOOL
from windlass.engine.startup.model_json import read_json
from windlass.errors import ChatTemplateError, UsageError
from windlass.launch.checkpoint import TEMPLATE_BYTES_MAX
from windlass.launch.model import LaunchPlan, ModelFiles
from windlass.launch.paths import ENGINES_TEMPLATES, IN_A_TEMPLATE, TEMPLATE

AUTO, OWN_VALUES = "enable-auto-tool-choice", "--default-chat-template-kwargs"
TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
PROCESSOR, TOKENIZER = "chat_template.json", "tokenizer_config.json"


def check(plan: LaunchPlan, model: ModelFiles) -> None:
    """ChatTemplateError for a template that does not compile, or cannot render a chat of one word.

    A model's own code, or values that a flag gives to every template, may render what we cannot: then it only compiles.
    """
    found = templates(plan, model)
    for template in dict.fromkeys(found):
        chat_template.compiled(template)
    if not found or model.brings_code or any(word.startswith(OWN_VALUES) for word in plan.engine_args):
        return
    plain, with_tools = found
    asked = [(plain, ()), (with_tools, (TOOL,))] if plan.value(AUTO) else [(plain, ())]
    for template, tools in asked:
        if error := chat_template.fault(template, HELLO, tools):
            raise error


def templates(plan: LaunchPlan, model: ModelFiles) -> tuple[Template, ...]:
    """The templates of a request without and with tools; none where no request is rendered by one."""
    if model.is_embedder:
        return ()
    if value := str(plan.value(TEMPLATE) or ""):
        template = _of_the_flag(value, _tokens(model))
        return (template, template)
    marks, tokens = model.marks, _tokens(model)
    if marks.is_mistral_format:
        return ()
    if marks.without_default:
        raise ChatTemplateError(
            f"{model.weights_path} has chat templates for {', '.join(marks.without_default)} and no default, so that "
            f"the engine renders no chat without tools; add chat_template.jinja, or name one with --{TEMPLATE}"
        )
    if not marks.template:
        return ()
    inside = _inside(Path(model.weights_path))
    rows = ((marks.plain, marks.file), (marks.template, marks.tools_file))
    return tuple(Template(text, file or inside, tokens) for text, file in rows)


def _of_the_flag(value: str, tokens: tuple[tuple[str, str], ...]) -> Template:
    """The template of the flag: a file, else the text itself."""
    if IN_A_TEMPLATE & set(value) and not Path(value).is_file():
        return Template(value, f"of --{TEMPLATE}", tokens)
    folder = release.installed()
    own = folder / ENGINES_TEMPLATES / value if folder else Path(value)
    path = Path(value) if Path(value).is_file() else own
    try:
        text = documents.read(path, TEMPLATE_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--{TEMPLATE} {value} cannot be read: {why}; name another file") from error
    return Template(text, str(path), tokens)


def _inside(directory: Path) -> str:
    """The file that holds the template, as `checkpoint` reads it."""
    has = bool(read_json(directory / PROCESSOR).get("chat_template"))
    return f"in {directory / (PROCESSOR if has else TOKENIZER)}"


def _tokens(model: ModelFiles) -> tuple[tuple[str, str], ...]:
    """Special tokens as templates name them; what tokenizer_config.json leaves out, the tokenizer's class may know."""
    tokenizer = read_json(Path(model.weights_path) / TOKENIZER)
    texts = ((name, tokenizer.get(name)) for name in TOKENS)
    plain = ((name, text.get("content") if isinstance(text, dict) else text) for name, text in texts)
    return tuple((name, text if isinstance(text, str) else "") for name, text in plain)
