"""One client library at a running server, with its default settings: `client_libraries.py LIBRARY ADDRESS`.

`run_clients.py` starts it in an environment that has this library alone. The demo's model writes what nobody asked for,
so a filled `Person` shows that the server held the schema.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from pydantic import BaseModel, Field

MODEL, KEY = "demo", "none"
QUESTION = "What does os.path.join do?"
MESSAGES = [{"role": "user", "content": QUESTION}]
TOKENS = 300
SEEDS = 6


class Person(BaseModel):
    """A person; bounds end what the small model would go on writing."""

    name: str = Field(max_length=20)
    n: int = Field(ge=0, le=99)


TOOLS = [{"type": "function", "function": {"name": "Person", "parameters": Person.model_json_schema()}}]


def openai(url: str) -> None:
    """Models, a stream with usage, the Responses API, and forced tool calls without `strict`."""
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key=KEY)
    assert client.models.list().data[0].id == MODEL
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, stream=True, stream_options={"include_usage": True}, max_tokens=20
    )
    assert list(stream)[-1].usage
    assert client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=20).output_text
    for choice in ("required", {"type": "function", "function": {"name": "Person"}}):
        for seed in range(SEEDS):
            answer = client.chat.completions.create(
                model=MODEL, messages=MESSAGES, tools=TOOLS, tool_choice=choice, seed=seed, temperature=1,
                max_tokens=TOKENS,
            )  # fmt: skip
            Person.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)


def anthropic(url: str) -> None:
    """A message, a stream and a forced tool."""
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key=KEY)
    assert client.messages.create(model=MODEL, max_tokens=20, messages=MESSAGES).content[0].text
    with client.messages.stream(model=MODEL, max_tokens=20, messages=MESSAGES) as stream:
        assert "".join(stream.text_stream)
    answer = client.messages.create(
        model=MODEL,
        max_tokens=TOKENS,
        messages=MESSAGES,
        tools=[{"name": "Person", "input_schema": Person.model_json_schema()}],
        tool_choice={"type": "tool", "name": "Person"},
    )
    Person.model_validate(next(block.input for block in answer.content if block.type == "tool_use"))


def litellm(url: str) -> None:
    """A chat by its own name of vLLM, and a forced tool."""
    import litellm as library

    shared = {"api_base": f"{url}/v1", "api_key": KEY, "messages": MESSAGES}
    assert library.completion(f"hosted_vllm/{MODEL}", max_tokens=20, **shared).choices[0].message.content
    answer = library.completion(f"openai/{MODEL}", tools=TOOLS, tool_choice="required", max_tokens=TOKENS, **shared)
    Person.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments)


def langchain(url: str) -> None:
    """Chat, stream, and a structured answer by a tool and by a schema."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key=KEY, max_tokens=TOKENS)
    assert model.invoke(QUESTION).content
    assert "".join(piece.content for piece in model.stream(QUESTION))
    for method in ("function_calling", "json_schema"):
        assert isinstance(model.with_structured_output(Person, method=method).invoke(QUESTION), Person), method


def instructor(url: str) -> None:
    """A structured answer by a tool and by a schema."""
    import instructor as library
    from openai import OpenAI

    for mode in (library.Mode.TOOLS, library.Mode.JSON_SCHEMA):
        client = library.from_openai(OpenAI(base_url=f"{url}/v1", api_key=KEY), mode=mode)
        answer = client.chat.completions.create(
            model=MODEL, response_model=Person, max_retries=1, max_tokens=TOKENS, messages=MESSAGES
        )
        assert isinstance(answer, Person), mode


def pydantic_ai(url: str) -> None:
    """A structured answer by a tool and by a schema."""
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key=KEY))
    for kind in (ToolOutput, NativeOutput):
        agent = Agent(model, output_type=kind(Person), model_settings={"max_tokens": TOKENS})
        assert isinstance(agent.run_sync(QUESTION).output, Person), kind


def haystack(url: str) -> None:
    """A chat."""
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    generator = OpenAIChatGenerator(
        model=MODEL,
        api_base_url=f"{url}/v1",
        api_key=Secret.from_token(KEY),
        generation_kwargs={"max_tokens": 20},
    )
    assert generator.run([ChatMessage.from_user(QUESTION)])["replies"][0].text


def dspy(url: str) -> None:
    """An answer of its language model."""
    import dspy as library

    assert library.LM(f"openai/{MODEL}", api_base=f"{url}/v1", api_key=KEY, max_tokens=40, cache=False)(QUESTION)[0]


def semantic_kernel(url: str) -> None:
    """A chat."""
    from openai import AsyncOpenAI
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
    from semantic_kernel.contents import ChatHistory

    async def chat() -> str:
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY)
        history = ChatHistory()
        history.add_user_message(QUESTION)
        settings = OpenAIChatPromptExecutionSettings(max_tokens=20)
        service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=client)
        return str(await service.get_chat_message_content(history, settings))

    assert asyncio.run(chat())


def llama_index(url: str) -> None:
    """A chat. Its tools say `strict: false`, which sets the arguments free: no structured answer is held."""
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        model=MODEL,
        api_base=f"{url}/v1",
        api_key=KEY,
        is_chat_model=True,
        max_tokens=20,
    )
    assert model.chat([ChatMessage(role="user", content=QUESTION)]).message.content


CHECKS: dict[str, Callable[[str], None]] = {
    "openai": openai,
    "anthropic": anthropic,
    "litellm": litellm,
    "langchain-openai": langchain,
    "instructor": instructor,
    "pydantic-ai-slim[openai]": pydantic_ai,
    "haystack-ai": haystack,
    "dspy": dspy,
    "semantic-kernel": semantic_kernel,
    "llama-index-llms-openai-like": llama_index,
}


if __name__ == "__main__":
    CHECKS[sys.argv[1]](sys.argv[2])
