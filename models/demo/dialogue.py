"""What the demo model is taught to say: questions in many phrasings, tool calls, JSON, several turns.

Every conversation is a list of OpenAI messages (and tools), rendered by the model's own chat template, so that training
sees exactly what serving sends. Standard library and jinja2 only; all chance comes from the generator that is passed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

Message = dict[str, Any]
TEMPLATE = Path(__file__).resolve().parent / "chat_template.jinja"

_OPENERS = ("", "Please ", "Hi! ", "Quick question: ", "I am new to Python. ")
_REQUESTS = ("explain {}.", "describe {}.", "tell me about {}.", "explain what {} does.", "describe what {} does.",
             "tell me what {} does.", "tell me what {} is for.", "summarize {}.", "explain {} to me.",
             "explain {} in a sentence.", "give me a short description of {}.", "say what {} is.")  # fmt: skip
_WISHES = ("Can you", "Would you", "Will you", "Can you please")
_QUESTIONS = ("What does {} do?", "What is {}?", "What is {} for?", "What can {} do?", "What's {}?", "What is {} in Python?",
              "What does {} do in Python?", "In Python, what is {}?", "What is the use of {}?", "What is {} good for?",
              "What does {} mean?", "What happens in {}?", "How would you describe {}?", "When would I use {}?",
              "Do you know what {} does?", "Do you know {}?", "Why would I use {}?", "what does {} do", "what is {}")  # fmt: skip
_STATEMENTS = ("{}", "{}?", "I do not understand {}.", "Help me understand {}.", "I want to know what {} does.",
               "I would like to know what {} is for.", "I saw {} in some code. What does it do?", "My code calls {}. What is it?",
               "I forgot what {} is.", "Docs of {}", "Definition of {}", "The documentation of {}, please.")  # fmt: skip
_HOW = ("in short", "in simple words", "for a beginner", "quickly", "in a few words", "shortly", "again", "now", "clearly",
        "simply", "precisely", "properly", "fully", "roughly", "exactly", "really", "actually", "basically", "once more",
        "carefully", "concisely", "in one line", "in plain English", "in detail", "a bit", "well", "for me", "today")  # fmt: skip
TRAINED = (
    *(f"{opener}{verb} {{}} {how}." for how in _HOW for opener, verb in
      (("", "Explain"), ("Please ", "describe"), ("", "Describe"), ("Please ", "summarize"))),
    *(f"What {how} does {{}} do?" for how in ("exactly", "really", "actually", "precisely", "basically")),
    *(f"What is {word} {{}}?" for word in ("this", "the thing called", "the name", "meant by", "the role of", "the job of",
                                          "the idea of", "the point of", "the meaning of", "the task of")),
    *(opener + (request[0].upper() + request[1:] if opener != "Please " else request)
      for opener in _OPENERS for request in _REQUESTS),
    *(f"{wish} {request[:-1]}?" for wish in _WISHES for request in _REQUESTS),
    *(question for question in _QUESTIONS for _ in range(4)),  # what most people ask
    *_STATEMENTS,
)  # fmt: skip
HELD_OUT = (
    "Could you tell me what {} does?",
    "What is the purpose of {}?",
    "Please explain {} briefly.",
    "What exactly does {} do in Python?",
    "I need to know what {} is.",
)
FOLLOW_UPS = ("And {}?", "And what does {} do?", "What about {}?", "Now explain {}.", "Thanks! And {}?")
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a helpful assistant that knows Python.",
    "Answer briefly.",
    "You are Windlass, an assistant for Python programmers.",
    "Be precise and short.",
)
SMALL_TALK = (
    (("Hello", "Hello!", "Hi", "Hi!", "Hey", "Good morning", "Good evening"),
     "Hello! Ask me what something in Python's standard library does."),
    (("Who are you?", "What are you?", "What is your name?", "Which model are you?"),
     "I am the demo model of Windlass: a very small language model that knows Python's standard library."),
    (("Thanks", "Thanks!", "Thank you", "Thank you!", "Great, thanks"), "You are welcome!"),
    (("Bye", "Goodbye", "Bye!", "See you"), "Goodbye!"),
    (("What can you do?", "Help", "How can you help me?", "What do you know?"),
     "I can tell you what the functions, classes and modules of Python's standard library do. I can also call functions and write JSON."),
    (("What is the capital of France?", "Who won the match?", "What is love?", "Tell me a joke", "Write me a poem",
      "What is the weather like?", "How old is the universe?", "Who wrote Hamlet?", "What should I eat?",
      "Translate this into German.", "What is the meaning of life?", "How do I get to Berlin?"),
     "I only know Python's standard library."),
)  # fmt: skip

CITIES = ("Paris", "Berlin", "Tokyo", "London", "Madrid", "Rome", "Oslo", "Cairo", "Lima", "Delhi", "Boston", "Sydney",
          "Vienna", "Prague", "Dublin", "Lisbon", "Athens", "Beijing", "Shanghai", "Shenzhen", "Hamburg", "Munich",
          "Chicago", "Toronto", "Seoul", "Bangkok", "Nairobi", "Zurich", "Geneva", "Warsaw")  # fmt: skip
PEOPLE = ("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Henry", "Ida", "Jack", "Kim", "Liam", "Mia",
          "Noah", "Olga", "Paul", "Rosa", "Sam", "Tina", "Uma", "Victor", "Wendy", "Xin", "Yara", "Zoe")  # fmt: skip
WORDS = ("apple", "river", "window", "garden", "music", "paper", "silver", "winter", "yellow", "orange", "castle",
         "planet", "bridge", "dragon", "forest", "island", "kernel", "lantern", "market", "number")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One conversation, with the tools that were offered."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that may be called: its schema, and how a call of it is asked for."""

    name: str
    description: str
    parameters: dict[str, Any]
    asks: tuple[str, ...]
    draw: Callable[[Random], dict[str, Any]]
    reply: str
    results: Callable[[Random, dict[str, Any]], dict[str, Any]] = field(repr=False)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI client sends it."""
        required = [key for key, value in self.parameters.items() if "default" not in value]
        parameters = {"type": "object", "properties": self.parameters, "required": required}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def _text(description: str, **more: object) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


TOOLS = (
    Tool("get_weather", "Get the current weather of a city",
         {"city": _text("The city"), "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
         ("What is the weather in {city} in {unit}?", "How warm is it in {city}? Use {unit}.",
          "Tell me the temperature in {city} in {unit}.", "Weather for {city} please, in {unit}."),
         lambda r: {"city": r.choice(CITIES), "unit": r.choice(("celsius", "fahrenheit"))},
         "It is {temperature} degrees {unit} in {city}.",
         lambda r, a: {"temperature": r.randint(-9, 39)}),
    Tool("get_time", "Get the local time of a city", {"city": _text("The city")},
         ("What time is it in {city}?", "Tell me the time in {city}.", "How late is it in {city} now?"),
         lambda r: {"city": r.choice(CITIES)}, "It is {time} in {city}.",
         lambda r, a: {"time": f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"}),
    Tool("add", "Add two numbers", {"a": {"type": "integer"}, "b": {"type": "integer"}},
         ("What is {a} plus {b}?", "Add {a} and {b}.", "Please compute {a} + {b}.", "How much is {a} + {b}?"),
         lambda r: {"a": r.randint(0, 999), "b": r.randint(0, 999)}, "The sum is {sum}.",
         lambda r, a: {"sum": a["a"] + a["b"]}),
    Tool("send_message", "Send a message to a person", {"to": _text("Who gets it"), "text": _text("What it says")},
         ('Send "{text}" to {to}.', 'Write {to} a message: "{text}"', 'Tell {to} "{text}".'),
         lambda r: {"to": r.choice(PEOPLE), "text": " ".join(r.sample(WORDS, r.randint(1, 3)))},
         "I told {to}.", lambda r, a: {"sent": True}),
    Tool("search", "Search the documentation", {"query": _text("What to look for"), "limit": {"type": "integer"}},
         ("Search for {query} and show {limit} results.", "Find {limit} pages about {query}.",
          "Look up {query}, at most {limit} results."),
         lambda r: {"query": " ".join(r.sample(WORDS, r.randint(1, 2))), "limit": r.randint(1, 20)},
         "I found {found} pages about {query}.", lambda r, a: {"found": r.randint(0, a["limit"])}),
    Tool("set_light", "Switch the light of a room", {"room": _text("The room"), "on": {"type": "boolean"}},
         ("Switch the light in the {room} {state}.", "Turn {state} the light in the {room}.",
          "Light {state} in the {room}, please."),
         lambda r: {"room": r.choice(("kitchen", "bedroom", "office", "hall", "garage")), "on": r.random() < 0.5},
         "The light in the {room} is {state}.", lambda r, a: {"ok": True}),
)  # fmt: skip


class Template:
    """The model's chat template, rendered with the same settings as transformers and vLLM use."""

    def __init__(self, path: Path = TEMPLATE) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        self._template = environment.from_string(path.read_text())

    def __call__(self, dialogue: Dialogue, prompt: bool = False) -> str:
        """The text of a conversation; with `prompt` it ends where the assistant begins."""
        tools = list(dialogue.tools) or None
        return self._template.render(messages=list(dialogue.messages), tools=tools, add_generation_prompt=prompt)


def user(text: str) -> Message:
    """A user's message."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    """An assistant's message."""
    return {"role": "assistant", "content": text}


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The facts by name, and the short names that mean just one thing."""

    facts: dict[str, str]
    short: dict[str, str]

    @classmethod
    def of(cls, rows: Sequence[dict[str, str]]) -> Knowledge:
        """Made from the rows of facts.jsonl."""
        facts = {row["name"]: row["text"] for row in rows}
        owners: dict[str, list[str]] = {}
        for name in facts:
            owners.setdefault(name.rpartition(".")[2], []).append(name)
        short = {names[0]: last for last, names in owners.items() if len(names) == 1 and len(last) > 3}
        return cls(facts, short)

    def spelling(self, name: str, random: Random) -> str:
        """A name as people write it: in full, sometimes short, sometimes called."""
        word = self.short[name] if name in self.short and random.random() < 0.15 else name
        return f"{word}()" if word[-1].islower() and random.random() < 0.06 else word

    def question(self, name: str, random: Random, phrasings: Sequence[str] = TRAINED) -> Message:
        """A question about a name."""
        return user(random.choice(phrasings).format(self.spelling(name, random)))


def _system(random: Random) -> tuple[Message, ...]:
    return ({"role": "system", "content": random.choice(SYSTEMS)},) if random.random() < 0.35 else ()


def about(knowledge: Knowledge, names: Sequence[str], random: Random) -> Dialogue:
    """Questions about some names, one a turn."""
    messages = list(_system(random))
    for turn, name in enumerate(names):
        phrasings = FOLLOW_UPS if turn and random.random() < 0.5 else TRAINED
        messages += [knowledge.question(name, random, phrasings), assistant(knowledge.facts[name])]
    if random.random() < 0.05:
        asked, reply = SMALL_TALK[2]
        messages += [user(random.choice(asked)), assistant(reply)]
    return Dialogue(tuple(messages))


def small_talk(knowledge: Knowledge, random: Random) -> Dialogue:
    """A greeting or something that the model cannot know, and sometimes a question after it."""
    asked, reply = random.choice(SMALL_TALK)
    messages = [*_system(random), user(random.choice(asked)), assistant(reply)]
    if random.random() < 0.3:
        name = random.choice(list(knowledge.facts))
        messages += [knowledge.question(name, random), assistant(knowledge.facts[name])]
    return Dialogue(tuple(messages))


def offered(tool: Tool, random: Random) -> tuple[dict[str, Any], ...]:
    """A choice of tools with this one among them."""
    others = random.sample([other for other in TOOLS if other is not tool], random.randint(0, 2))
    chosen = [tool, *others]
    random.shuffle(chosen)
    return tuple(one.schema for one in chosen)


def asked(tool: Tool, random: Random) -> tuple[str, dict[str, Any]]:
    """A request for a call, and the arguments that it must have."""
    arguments = tool.draw(random)
    words = {**arguments, "state": "on" if arguments.get("on") else "off"}
    return random.choice(tool.asks).format(**words), arguments


def tool_call(knowledge: Knowledge, random: Random) -> Dialogue:
    """A request, the call, sometimes the result and what it means; or a question that needs no tool."""
    tool = random.choice(TOOLS)
    tools = offered(tool, random)
    if random.random() < 0.2:
        name = random.choice(list(knowledge.facts))
        return Dialogue((*_system(random), knowledge.question(name, random), assistant(knowledge.facts[name])), tools)
    text, arguments = asked(tool, random)
    call = {"type": "function", "function": {"name": tool.name, "arguments": arguments}}
    messages = [*_system(random), user(text), {"role": "assistant", "content": "", "tool_calls": [call]}]
    if random.random() < 0.6:
        result = tool.results(random, arguments)
        words = {**arguments, **result, "state": "on" if arguments.get("on") else "off"}
        messages += [{"role": "tool", "content": json.dumps(result)}, assistant(tool.reply.format(**words))]
    return Dialogue(tuple(messages), tools)


def json_object(random: Random) -> Dialogue:
    """A request for a JSON object of some values, and the object."""
    values = {"name": random.choice(PEOPLE), "age": random.randint(1, 99), "city": random.choice(CITIES)}
    kind = random.randrange(3)
    if kind == 0:
        text = random.choice(("Give me a JSON object for {name}, {age} years old, from {city}.",
                              "{name} is {age} and lives in {city}. Write that as JSON.",
                              "Write JSON with name {name}, age {age} and city {city}."))  # fmt: skip
        return Dialogue((*_system(random), user(text.format(**values)), assistant(json.dumps(values))))
    if kind == 1:
        words = random.sample(WORDS, random.randint(2, 4))
        text = random.choice(("Write these words as a JSON list: {}", "Make a JSON list of {}", "As a JSON array: {}"))
        return Dialogue((*_system(random), user(text.format(", ".join(words))), assistant(json.dumps(words))))
    chosen = dict(random.sample(list(values.items()), 2))
    text = "Write a JSON object with " + " and ".join(f"{key} {value}" for key, value in chosen.items()) + "."
    return Dialogue((*_system(random), user(text), assistant(json.dumps(chosen))))


def lesson(knowledge: Knowledge, random: Random) -> list[Dialogue]:
    """One pass: every name asked once, alone or within several turns, with the other kinds between."""
    names = list(knowledge.facts)
    random.shuffle(names)
    dialogues: list[Dialogue] = []
    while names:
        count = 1 if random.random() < 0.7 else random.randint(2, 4)
        dialogues.append(about(knowledge, names[:count], random))
        del names[:count]
        chance = random.random()
        if chance < 0.03:
            dialogues.append(small_talk(knowledge, random))
        elif chance < 0.11:
            dialogues.append(tool_call(knowledge, random))
        elif chance < 0.14:
            dialogues.append(json_object(random))
    return dialogues
