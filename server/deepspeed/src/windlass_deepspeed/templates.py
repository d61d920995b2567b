"""Chat templates by name, for models that bring none: the rows of CONV_TEMPLATE, and which names mean them. Pure.

Each text is Jinja as tokenizers render it: a newline at its very end would be cut, so such an end is an expression.
A name that is said wins; else the model's own template is used; else the first row whose words are in MODEL_ID.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_deepspeed.errors import UsageError

OWN = ""
"""The model's own template."""


@dataclass(frozen=True, slots=True)
class Template:
    """A row: `words` are what MODEL_ID must contain, all of them; `stop_ids` end an answer besides the model's own."""

    name: str
    words: tuple[str, ...]
    text: str
    stop_ids: tuple[int, ...] = ()


_CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
_LLAMA_3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
)
_LLAMA_2 = (
    "{% set given = messages[0].role == 'system' %}{% set turns = messages[1:] if given else messages %}"
    "{% for m in turns %}{% if m.role == 'user' %}<s>[INST] "
    "{% if loop.first and given %}<<SYS>>\n{{ messages[0].content | trim }}\n<</SYS>>\n\n{% endif %}"
    "{{ m.content | trim }} [/INST]{% else %} {{ m.content | trim }} </s>{% endif %}{% endfor %}"
)
_GENERATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
_CHATGLM2 = (
    "{% set count = namespace(at=1) %}"
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role == 'user' %}"
    "[Round {{ count.at }}]\n\n问：{{ m.content }}\n\n答：{% else %}{{ m.content }}\n\n"
    "{% set count.at = count.at + 1 %}{% endif %}{% endfor %}"
)
_CHATGLM3 = "{% for m in messages %}<|{{ m.role }}|>\n {{ m.content }}{% endfor %}<|assistant|>"


def _baichuan(user: str, assistant: str) -> str:
    return (
        f"{{% for m in messages %}}{{% if m.role == 'user' %}}{user}{{% elif m.role == 'assistant' %}}{assistant}"
        f"{{% endif %}}{{{{ m.content }}}}{{% endfor %}}{assistant}"
    )


TEMPLATES: tuple[Template, ...] = (
    Template("generate", (), _GENERATE),
    Template("llama-3", ("llama-3",), _LLAMA_3, (128001, 128009)),
    Template("llama-2", ("llama-2", "chat"), _LLAMA_2),
    Template("qwen-7b-chat", ("qwen", "chat"), _CHATML, (151643, 151644, 151645)),
    Template("baichuan2-chat", ("baichuan2",), _baichuan("<reserved_106>", "<reserved_107>")),
    Template("baichuan-chat", ("baichuan",), _baichuan("<reserved_102>", "<reserved_103>")),
    Template("chatglm3", ("chatglm3",), _CHATGLM3, (64795, 64797)),
    Template("chatglm2", ("chatglm2",), _CHATGLM2),
)


def choose(name: str | None, model_id: str, *, own: bool) -> Template | None:
    """The template; None when nothing is said and nothing matches. `own` is whether the model brings one."""
    if name:
        return _by_name(name)
    if own:
        return Template("the model's own", (), OWN)
    wanted = model_id.lower()
    return next((row for row in TEMPLATES if row.words and all(word in wanted for word in row.words)), None)


def _by_name(name: str) -> Template:
    found = next((row for row in TEMPLATES if row.name == name.lower()), None)
    if found is None:
        known = ", ".join(row.name for row in TEMPLATES)
        raise UsageError(
            f'CONV_TEMPLATE "{name}" is not known here; choose one of {known}, '
            "or unset it to use the template in the model directory"
        )
    return found
