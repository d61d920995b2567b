"""What a checkpoint shows of the form that its model writes in: architecture, chat template, tokens. Pure values.

`checkpoint` reads them from the model directory; the rows of `parsers` ask them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

PROMPT_SWITCH = "add_generation_prompt"
TOOLS = re.compile(r"\btools\b")


@lru_cache(maxsize=256)
def compact(text: str) -> str:
    """A template without blanks and escapes, so that a mark is found however the template splits its lines."""
    return "".join(text.replace("\\n", "").replace('\\"', '"').replace("\\'", "'").split())


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one checkpoint; all empty where it has none."""

    architecture: str = ""
    template: str = ""
    """The chat template that is rendered for a request with tools."""
    plain: str = ""
    """The default, for a request without tools; mostly the same."""
    file: str = ""
    """Where `plain` lies, when it is a file of its own."""
    tools_file: str = ""
    """Where `template` lies, when it is a file of its own."""
    without_default: tuple[str, ...] = ()
    """The names of several templates none of which is the default: the engine then renders no chat without tools."""
    tokens: frozenset[str] = frozenset()
    """Added and special tokens of the tokenizer."""
    is_mistral_format: bool = False
    """The tokenizer is a file of mistral-common, which renders conversations without a template."""

    @property
    def prompt(self) -> str:
        """The generation prompt: the part of the template that opens the answer."""
        return self.template.rpartition(PROMPT_SWITCH)[2] if PROMPT_SWITCH in self.template else ""

    @property
    def shows_tools(self) -> bool:
        """Whether the template reads the tools of a request."""
        return bool(TOOLS.search(self.template))
