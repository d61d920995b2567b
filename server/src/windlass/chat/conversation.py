"""A conversation: its messages, how answers are drawn, and the commands that begin with a slash. No I/O but files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.chat.stream import Sampling
from windlass.errors import UsageError

HELP = "/reset begins anew, /save FILE keeps the conversation, /params shows and sets (temperature=0.2), /exit leaves"
PARAMETERS: dict[str, Callable[[Sampling, str], Sampling]] = {
    "max_tokens": lambda sampling, text: replace(sampling, max_tokens=int(text)),
    "temperature": lambda sampling, text: replace(sampling, temperature=float(text)),
    "top_p": lambda sampling, text: replace(sampling, top_p=float(text)),
}


@dataclass(slots=True)
class Conversation:
    """What was said so far."""

    system: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    turns: list[dict[str, str]] = field(default_factory=list)

    def messages(self) -> list[dict[str, str]]:
        """Everything, the system's words first."""
        first = [{"role": "system", "content": self.system}] if self.system else []
        return [*first, *self.turns]

    def add(self, role: str, content: str) -> None:
        """Add a turn."""
        self.turns.append({"role": role, "content": content})

    def command(self, line: str) -> str:
        """Carry a slash command out; what to tell about it."""
        name, _, rest = line.partition(" ")
        commands = {"/reset": self._reset, "/save": self._save, "/params": self._params}
        return commands[name](rest.strip()) if name in commands else HELP

    def _reset(self, _: str) -> str:
        self.turns.clear()
        return "the conversation begins anew"

    def _save(self, name: str) -> str:
        if not name:
            return "say where: /save FILE"
        path = Path(name)
        try:
            path.write_text(json.dumps(self.messages(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            return f"{path} cannot be written: {error.strerror}"
        return f"{len(self.turns)} turns saved to {path}"

    def _params(self, rest: str) -> str:
        try:
            self.sampling = with_parameters(self.sampling, rest)
        except UsageError as error:
            return str(error)
        shown = ", ".join(f"{name}={value}" for name, value in self.sampling.to_dict().items())
        return shown or "all are the server's own"


def with_parameters(sampling: Sampling, text: str) -> Sampling:
    """The sampling with `name=value` words applied."""
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in PARAMETERS:
            raise UsageError(f'"{name}" is no parameter; choose {", ".join(PARAMETERS)}')
        try:
            sampling = PARAMETERS[name](sampling, value)
        except ValueError:
            raise UsageError(f'{name} is "{value}", which is no number') from None
    return sampling
