"""What an engine's error becomes: whose turn it is, and what to do."""

import pytest
from windlass.api import remedies
from windlass.api.body import Body, rewrite
from windlass.api.remedies import ErrorContext
from windlass.api.routes import ROUTES
from windlass.front.refusal import Refusal
from windlass.front.settings import ApiSettings

from .conftest import Engine

CHAT = ROUTES["/v1/chat/completions"]
GAVE_UP = b'{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}'
NO_IMAGES = b'{"error":{"message":"demo is not a multimodal model","type":"BadRequestError","param":null,"code":400}}'
NOT_DONE = b'{"error":{"message":"Only this.","type":"NotImplementedError","param":null,"code":501}}'
NOT_JSON = (
    b'{"error":{"message":"1 validation error:\\n  Unsupported Media Type: Only \'application/json\' is allowed",'
    b'"type":"BadRequestError","param":null,"code":400}}'
)
NOT_KEPT = (
    b'{"error":{"message":"Response with id \'resp_1\' not found.","type":"NotFoundError","param":null,"code":404}}'
)
FETCHED = {
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://images.example.com/a"}}]}
    ]
}


@pytest.mark.parametrize(
    ("path", "gives"),
    [
        ("/v1/embeddings", "embeddings"),
        ("/pooling", "embeddings"),
        ("/v1/rerank", "scores"),
        ("/classify", "classes"),
    ],
)
@pytest.mark.parametrize("model", ["demo", "text-embedding-3-small", None])
async def test_what_another_kind_of_model_gives(api, path: str, gives: str, model: str | None) -> None:
    """The engine has no such route for a model that generates text; whatever model is named."""
    answer = await api(Engine(404, b'{"detail":"Not Found"}')).client.post(path, json={"model": model, "input": "x"})
    message = f"{path} is not here: the model of this server gives no {gives}; ask a server whose model does"
    assert answer.status_code == 404
    assert answer.json() == {"error": {"message": message, "type": "NotFoundError", "param": None, "code": 404}}


@pytest.mark.parametrize(
    ("status", "content", "document", "becomes", "begins"),
    [
        (405, b'{"detail":"Method Not Allowed"}', {}, 405, "/v1/chat/completions does not take POST; the header Allow"),
        (400, NO_IMAGES, {}, 400, "this model reads text only; leave images, audio and video out"),
        (501, NOT_DONE, {}, 400, "Only this."),
        (400, NOT_JSON, {}, 415, "the body's type is not JSON; send the header Content-Type: application/json"),
        (
            404,
            NOT_KEPT,
            {},
            404,
            "Response with id 'resp_1' not found. This server keeps responses only with the variable",
        ),
        (500, GAVE_UP, {"response_format": {"type": "json_object"}}, 400, "the engine gave this request up"),
        (
            500,
            GAVE_UP,
            {"tools": [{}]},
            400,
            "the engine gave this request up, most likely while it made a grammar of tools",
        ),
        (500, GAVE_UP, {}, 500, "Internal server error"),
        (500, b"", {"tools": [{}]}, 500, "Internal Server Error"),
    ],
)
async def test_whose_turn_it_is(api, status: int, content: bytes, document: dict, becomes: int, begins: str) -> None:
    """A request that nobody could answer is the client's; everything else stays as it is."""
    answer = await api(Engine(status, content)).chat(document)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (becomes, becomes)
    assert error["message"].startswith(begins)


class ClientError(Exception):
    """As the engine's client of other hosts names it."""


class DnsError(ClientError):
    """One of its kinds."""


@pytest.mark.parametrize(
    ("document", "error", "becomes"),
    [
        (FETCHED, DnsError("Name or service not known"), 400),
        (FETCHED, TimeoutError(), 400),
        (FETCHED, RuntimeError("the engine broke"), 500),
        ({}, TimeoutError(), 500),
    ],
)
async def test_a_host_that_does_not_answer(api, document: dict, error: Exception, becomes: int) -> None:
    """The client named it, so the client hears of it; a crash stays a crash."""

    class Broken(Engine):
        async def _serve(self, scope, receive, send) -> None:
            raise error

    answer = await api(Broken()).chat(document)
    assert answer.status_code == becomes
    assert ("could not be fetched" in answer.json()["error"]["message"]) == (becomes == 400)


def test_a_reason_is_cut() -> None:
    """What another host writes does not fill the answer."""
    context = ErrorContext("POST", "/v1/chat/completions", CHAT, Body(b"", fetches=True))
    refusal = remedies.refusal(context, ClientError("x" * 10_000))
    assert refusal is not None
    assert len(refusal.message) < 400


@pytest.mark.parametrize("path", ["/scale_elastic_ep", "/is_scaling_elastic_ep", "//scale_elastic_ep"])
async def test_who_may_ask_may_not_scale(api, path: str) -> None:
    """Even with a key."""
    server = api(keys="sk-a")
    key = {"Authorization": "Bearer sk-a"}
    assert (await server.client.post(f"http://api{path}", json={}, headers=key)).status_code == 403
    assert (await server.client.post(f"http://api{path}", json={})).status_code == 401
    assert server.engine.paths == []


def test_half_a_surrogate_pair_is_no_character() -> None:
    """JSON can write it; no tokenizer can read it."""
    with pytest.raises(Refusal, match="half of a surrogate pair") as refused:
        rewrite(b'{"bad_words": ["\\ud800"]}', CHAT, ApiSettings())
    assert refused.value.status == 400
    assert rewrite(b'{"stop": ["\\ud83d\\ude00"]}', CHAT, ApiSettings()).raw.decode().count("\U0001f600") == 1


def test_what_is_kept_of_a_body() -> None:
    """Whether it is bound to a grammar, and whether it names another host."""
    plain = rewrite(b'{"model": "demo"}', CHAT, ApiSettings())
    assert (plain.model, plain.bindings, plain.fetches) == ("demo", (), False)
    bound = rewrite(b'{"structured_outputs": {"regex": "a"}, "tools": [{}], "text": {}}', CHAT, ApiSettings())
    assert bound.bindings == ("structured_outputs", "tools")
    inline = b'{"messages": [{"role": "user", "content": [{"image_url": "data:image/png;base64,AAAA"}]}]}'
    assert not rewrite(inline, CHAT, ApiSettings()).fetches
    other = inline.replace(b"data:image/png;base64,AAAA", b"https://a.example/")
    assert rewrite(other, CHAT, ApiSettings(image_domains=("a.example",))).fetches


@pytest.mark.parametrize(
    ("module", "body", "status"),
    [
        pytest.param("vllm.renderers.chat_utils", "[][0]", 400, id="no part"),
        pytest.param("vllm.entrypoints.openai.responses.utils", "object().text", 400, id="another part"),
        pytest.param("vllm.renderers.chat_utils", "1 / 0", None, id="another fault"),
        pytest.param("vllm.v1.engine.core", "[][0]", None, id="the engine's own"),
        pytest.param("vllm.entrypoints.openai.completion.protocol", "'x'.get('json')", 400, id="a field's type"),
        pytest.param("vllm.entrypoints.openai.completion.protocol", "1 / 0", None, id="another fault of a field"),
        pytest.param("vllm.entrypoints.openai.completion.serving", "'x'.get('json')", None, id="no module of fields"),
    ],
)
def test_what_the_engine_cannot_read_is_the_clients(module: str, body: str, status: int | None) -> None:
    """By the module that fails on them."""
    names: dict = {"__name__": module}
    exec(f"def convert():\n    {body}", names)  # noqa: S102 - a function of a module of that name
    with pytest.raises((IndexError, AttributeError, ZeroDivisionError)) as caught:
        names["convert"]()
    refusal = remedies.refusal(ErrorContext("POST", "/v1/responses", CHAT), caught.value)
    assert (refusal and refusal.status) == status


def test_what_a_check_of_fields_calls_is_the_engines() -> None:
    """The line that fails counts: a module of fields may call what fails by a fault of its own."""
    inner: dict = {"__name__": "vllm.config.model"}
    exec("def fail():\n    [][0]", inner)  # noqa: S102 - as above
    outer: dict = {"__name__": "vllm.entrypoints.openai.completion.protocol", "fail": inner["fail"]}
    exec("def check():\n    fail()", outer)  # noqa: S102 - as above
    with pytest.raises(IndexError) as caught:
        outer["check"]()
    assert remedies.refusal(ErrorContext("POST", "/v1/completions", CHAT), caught.value) is None
