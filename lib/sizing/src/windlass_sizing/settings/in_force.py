"""Resolves the settings of one start: each row of `flags` gets its typed value and where that came from. Pure.

A flag wins over a field of the resource that becomes a flag, the field over the row's variables. Then come what lies
below them, such as a file of the model directory, and the row's default. The operator and the server call
`settings_in_force`; the operator goes on where a text cannot be read, the server ends with the sentence on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from windlass_sizing.engine_flags import record
from windlass_sizing.errors import SettingsError
from windlass_sizing.settings import engine_words, values
from windlass_sizing.settings.flags import FLAGS, ROW, Flag
from windlass_sizing.settings.parse import CommandLine
from windlass_sizing.settings.setting import DEFAULT, FIELD, FLAG, Setting
from windlass_sizing.settings.values import Value


@dataclass(frozen=True, slots=True)
class Layers:
    """Texts of settings by the rows' names, the strongest first."""

    line: CommandLine
    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of the resource that the operator writes as flags before the user's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Text and source: a model directory's file, or a field that a variable overrules."""

    def texts(self, flag: Flag) -> Iterator[tuple[str, str]]:
        """Every text that a layer gives to the row, with its source."""
        if (text := self.line.texts.get(flag.name)) is not None:
            yield text, FLAG
        if (text := self.fields.get(flag.name)) is not None:
            yield text, FIELD
        yield from ((text, f"variable {name}") for name in flag.variables if (text := self.environment.get(name)))
        if flag.name in self.below:
            yield self.below[flag.name]
        if flag.default is not None:
            yield flag.default, DEFAULT


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force by the rows' names, and the words that belong to the engine."""

    rows: Mapping[str, Setting]
    engine_words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences on texts that cannot be read; such a row has the value of the next layer."""
    flags: frozenset[str] = frozenset()
    """Rows that a flag names, with a text that can be read or without."""
    layers: Layers = field(default_factory=lambda: Layers(CommandLine()), repr=False, compare=False)
    """Texts that the rows were resolved from; they hold secrets."""

    def checked(self) -> Settings:
        """Return the settings themselves; SettingsError for the first problem."""
        if self.problems:
            raise SettingsError(self.problems[0])
        return self

    def value(self, name: str) -> Value | None:
        """Return the value in force, None where no layer has one."""
        found = self._row(name)
        return found.value if found else None

    def whole(self, name: str) -> int:
        """Return a whole number in force, 0 where there is none."""
        value = self.value(name)
        return value if isinstance(value, int) else 0

    def text(self, name: str) -> str | None:
        """Return the text in force, None where no layer above the default has one."""
        return str(self.value(name)) if self.is_given(name) else None

    def count(self, name: str) -> int | None:
        """Return the number of at least 1 of the strongest layer above the default that has one."""
        found = (one.value for one in _readable(ROW[name], self.layers, []) if one.source != DEFAULT)
        return next((value for value in found if isinstance(value, int) and value >= 1), None)

    def percent(self, name: str) -> int | None:
        """Return the share of the strongest layer in which it is not rounded to 0, in percent."""
        found = (one.value for one in _readable(ROW[name], self.layers, []))
        return next((share for value in found if isinstance(value, float) and (share := round(value * 100))), None)

    def source(self, name: str) -> str:
        """Return the source of the value in force, empty where no layer has one."""
        found = self._row(name)
        return found.source if found else ""

    def is_given(self, name: str) -> bool:
        """Whether a layer above the default has a value that can be read."""
        return self.source(name) not in ("", DEFAULT)

    def names(self, flag: str) -> bool:
        """Whether the words name a flag, ours or the engine's, in any spelling, with a value or a key or without."""
        ours = flag.removeprefix("--") in self.flags
        return ours or flag in (record().flag_of(word) for word in self.engine_words if word.startswith("-"))

    def _row(self, name: str) -> Setting | None:
        return self.rows.get(ROW[name].name)  # KeyError for a name that no row has

    def engine_value(self, flag: str) -> str | None:
        """Return the text that the words give to one of the engine's own flags."""
        return engine_words.values(self.engine_words, record(), (flag,)).get(flag)


def settings_in_force(layers: Layers, rows: Iterable[Flag] = FLAGS) -> Settings:
    """The settings that the layers give to these rows."""
    problems = list(layers.line.problems)
    strongest = ((flag.name, next(_readable(flag, layers, problems), None)) for flag in rows)
    found = {name: setting for name, setting in strongest if setting is not None}
    return Settings(found, layers.line.engine_words, tuple(problems), frozenset(layers.line.texts), layers)


def _readable(flag: Flag, layers: Layers, problems: list[str]) -> Iterator[Setting]:
    """The settings of the layers whose text can be read, the strongest first."""
    for text, source in layers.texts(flag):
        try:
            value = values.read(flag, text, f"--{flag.name}" if source == FLAG else source)
        except SettingsError as error:
            problems.append(str(error))
        else:
            yield Setting(flag.name, value, source, secret=flag.secret)
