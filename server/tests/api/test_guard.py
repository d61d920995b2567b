"""The guard in front of an engine, over HTTP: keys, paths, names, sizes, errors, ids and the guard's own pages."""

import asyncio
import sys
from types import SimpleNamespace

import pytest
from windlass.errors import UsageError
from windlass.front.settings import ApiSettings
from windlass_testbed.waiting import wait_until_async

from .conftest import SETTINGS, Engine

KEY = {"Authorization": "Bearer sk-b"}


@pytest.mark.parametrize("path", ["/health", "/ping", "/metrics", "/", "/windlass/metrics"])
async def test_some_paths_need_no_key(api, path: str) -> None:
    """Probes, scrapers and somebody who opens the address get in."""
    assert (await api(keys="sk-a,sk-b").client.get(path)).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/version",
        "/docs",
        "/openapi.json",
        "/windlass/facts",
        "/nowhere",
        "/load",
        "/health/x",
        "http://api//version",
    ],
)
async def test_all_others_need_one(api, path: str) -> None:
    """401 in the shape of OpenAI, and the engine sees nothing."""
    server = api(keys="sk-a,sk-b")
    answer = await server.client.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["type"] == "AuthenticationError"
    assert server.engine.paths == []
    known = path not in ("/nowhere", "/health/x")
    assert (await server.client.get(path, headers=KEY)).status_code == (200 if known else 404)
    assert len(server.engine.paths) == (known and path != "/windlass/facts")


@pytest.mark.parametrize(
    "value",
    ["Bearer sk-c", "Bearer", "Bearer ", "sk-b", "Basic sk-b", "Bearer sk-", "Bearer sk-bb", "Bearer sk-a,sk-b"],
)
async def test_a_wrong_key_is_refused(api, value: str) -> None:
    """Nearly right is wrong."""
    server = api(keys="sk-a,sk-b")
    answer = await server.client.get("/v1/models", headers={"Authorization": value})
    assert answer.status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_open_paths_are_open_for_reading_only(api, method: str) -> None:
    """A POST to /metrics or / needs a key as everything else."""
    server = api(keys="sk-a")
    assert [(await server.client.request(method, path)).status_code for path in ("/", "/metrics", "/ping")] == [401] * 3


async def test_a_browsers_preflight_needs_no_key(api) -> None:
    """It never carries one; the engine's own rules decide it."""
    asks = {"Origin": "http://x", "Access-Control-Request-Method": "POST"}
    assert (await api(keys="sk-a").client.options("/v1/models", headers=asks)).status_code == 200


async def test_metrics_can_be_closed(api) -> None:
    """Both of them."""
    server = api(settings=ApiSettings(metrics_closed=True), keys="sk-a")
    assert [(await server.client.get(path)).status_code for path in ("/metrics", "/windlass/metrics")] == [401, 401]


async def test_a_websocket_needs_a_key(api) -> None:
    """It is closed before it opens."""
    server, sent = api(keys="sk-a"), []

    async def send(message) -> None:
        sent.append(message)

    await server.guard({"type": "websocket", "path": "/v1/realtime", "headers": []}, None, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1008)]


async def test_doubled_slashes_are_one(api) -> None:
    """A base URL that ends in a slash works."""
    server = api()
    assert (await server.client.post("http://api//v1//chat/completions", json={"messages": []})).status_code == 200
    assert server.engine.paths == ["/v1/chat/completions"]
    assert server.engine.document["temperature"] == 0.7


async def test_the_front_page_tells_what_this_is(api) -> None:
    """Names and links; adapters that the engine loaded since are among the names."""
    models = SimpleNamespace(base_model_paths=[SimpleNamespace(name="demo")], lora_requests={"poet": object()})
    app = SimpleNamespace(state=SimpleNamespace(openai_serving_models=models))
    page = (await api(app=app).client.get("/")).json()
    assert page["models"] == ["demo", "alias", "poet"]
    assert page["links"]["chat"] == "/chat"


async def test_the_body_reaches_the_engine_with_its_new_length(api) -> None:
    """Model and defaults are filled in, the length agrees."""
    server = api()
    await server.chat({"temperature": 0})
    assert (server.engine.document["model"], server.engine.document["temperature"]) == ("demo", 0)
    assert int(server.engine.headers[0]["content-length"]) == len(server.engine.bodies[0])


async def test_an_unknown_model_is_the_engines_decision_with_a_remedy(api) -> None:
    """The engine knows adapters that we do not; its 404 becomes one that lists the names."""
    engine = Engine(404, b'{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","code":404}}')
    answer = await api(engine).chat({"model": "x"})
    assert engine.document["model"] == "x"
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": 'model "x" is not served here; this server has: demo, alias; leave model out to ask the first',
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


async def test_an_adapter_that_the_engine_accepts_is_served(api) -> None:
    """An unknown name is not refused by the guard."""
    assert (await api().chat({"model": "just-loaded"})).status_code == 200


async def test_a_value_out_of_range_never_reaches_the_engine(api) -> None:
    """And neither does an address that may not be fetched."""
    server = api()
    image = {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]}]}
    answers = [await server.chat({"temperature": 3}), await server.chat(image)]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert [answer.json()["error"]["param"] for answer in answers] == ["temperature", "image_url"]
    assert server.engine.bodies == []


async def test_a_route_that_the_guard_does_not_know_is_not_there(api) -> None:
    """A new route of the engine is no way around; the settings may open it."""
    server = api()
    answer = await server.client.post("/v9/new", json={})
    assert answer.json()["error"]["message"] == "there is no POST /v9/new here; GET /docs lists what there is"
    assert server.engine.paths == []
    opened = api(settings=ApiSettings(opened_routes=("/v9/new",)))
    assert (await opened.client.post("/v9/new", json={})).status_code == 200


@pytest.mark.parametrize("path", ["/inference/v1/abort_requests", "/sleep", "/v1/load_lora_adapter", "/server_info"])
async def test_what_controls_the_engine_is_closed(api, path: str) -> None:
    """By every method and with a right key; the settings may open one."""
    server = api(keys="sk-b")
    answers = [await server.client.request(method, path, headers=KEY) for method in ("GET", "POST", "DELETE")]
    assert [answer.status_code for answer in answers] == [403] * 3
    assert server.engine.paths == []
    opened = api(settings=ApiSettings(opened_routes=(path,)), keys="sk-b")
    assert (await opened.client.post(path)).status_code == 401
    assert (await opened.client.post(path, json={}, headers=KEY)).status_code == 200


async def test_another_method_gets_405_with_the_allowed_ones(api) -> None:
    """405 by the guard itself."""
    answer = await api().client.get("/v1/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_other_bodies_pass_unchanged(api) -> None:
    """Audio is no JSON."""
    server = api()
    await server.client.post("/v1/audio/transcriptions", content=b"\x00RIFF{")
    assert server.engine.bodies == [b"\x00RIFF{"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_body_over_the_limit_is_refused(api, streamed: bool) -> None:
    """By its announced length at once, or as soon as more has come."""

    async def pieces():
        for _ in range(3):
            yield b"x" * 50

    server = api(settings=ApiSettings(max_body_bytes=100))
    answer = await server.client.post("/v1/completions", content=pieces() if streamed else b"x" * 150)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert answer.json()["error"]["type"] == "RequestTooLargeError"
    assert server.engine.bodies == []


@pytest.mark.parametrize(
    ("status", "body", "message", "type_"),
    [
        (
            404,
            b'{"detail":"Not Found"}',
            "there is no GET /v1/models here; GET /docs lists what there is",
            "NotFoundError",
        ),
        (401, b'{"error":"Unauthorized"}', "Unauthorized", "AuthenticationError"),
        (500, b"Internal Server Error", "Internal Server Error", "InternalServerError"),
        (503, b"", "Service Unavailable", "ServiceUnavailableError"),
        (502, b"<html>bad</html>", "Bad Gateway", "InternalServerError"),
        (400, b'{"detail":[{"loc":["a"]}]}', '[{"loc": ["a"]}]', "BadRequestError"),
        (400, b'{"error":{"message":"m","type":"Bad Request","param":"p","code":400}}', "m", "BadRequestError"),
        (400, b'{"error":{"message":"m","type":"OwnError"}}', "m", "OwnError"),
    ],
)
async def test_errors_of_the_engine_get_the_one_shape(api, status: int, body: bytes, message: str, type_: str) -> None:
    """Whatever part of the engine wrote them; the status stays."""
    answer = await api(Engine(status, body, type="text/plain")).client.get("/v1/models")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["message"], error["type"]) == (status, status, message, type_)
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)


async def test_a_right_error_is_not_touched(api) -> None:
    """Byte for byte."""
    body = b'{"error": {"message":"m","type":"T","param":null,"code":422, "more":1}}'
    assert (await api(Engine(422, body)).client.get("/v1/models")).content == body


async def test_a_probes_answer_is_not_touched(api) -> None:
    """An unwell engine answers /health as it likes."""
    assert (await api(Engine(503, b"")).client.get("/health")).content == b""


async def test_a_crash_is_an_error_with_the_id(api, caplog: pytest.LogCaptureFixture) -> None:
    """The client gets the id under which the log has the traceback."""
    answer = await api(Engine(fail=True)).chat(headers={"x-request-id": "abc-1"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "abc-1")
    assert "abc-1" in answer.json()["error"]["message"]
    assert "the engine broke" in caplog.text


@pytest.mark.parametrize(("said", "kept"), [("req-1:a/b", True), ("x" * 129, False), ("a b", False), ("", False)])
async def test_every_answer_carries_an_id(api, said: str, kept: bool) -> None:
    """The client's when it is sane; the engine gets the same one."""
    server = api(keys="sk-b")
    answer = await server.client.get("/v1/models", headers=KEY | {"x-request-id": said})
    refused = await server.client.get("/v1/models", headers={"x-request-id": said})
    assert (answer.headers["x-request-id"] == said) is kept
    assert (refused.headers["x-request-id"] == said) is kept
    assert server.engine.headers[0]["x-request-id"] == answer.headers["x-request-id"]


async def test_a_stream_passes_piece_by_piece(api) -> None:
    """The first piece is out before the second is made."""
    out: list[bytes] = []
    seen_at_second: list[int] = []

    async def engine(scope, receive, send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        seen_at_second.append(len(out))
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message) -> None:
        if message["type"] == "http.response.body":
            out.append(message["body"])

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"content-length", b"2")]}
    await api(engine).guard(scope, receive, send)
    assert (out, seen_at_second) == ([b"data: 1\n\n", b"data: [DONE]\n\n"], [1])


async def test_the_head_of_a_stream_comes_with_its_first_piece(api) -> None:
    """Not before: a proxy that gets a head while it still looks for the body's end may cut the stream."""
    out: list[str] = []
    seen_before_the_piece: list[list[str]] = []

    async def engine(scope, receive, send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        seen_before_the_piece.append(list(out))
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message) -> None:
        out.append(message["type"])

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [(b"content-length", b"2")]}
    await api(engine).guard(scope, receive, send)
    assert seen_before_the_piece == [[]]
    assert out == ["http.response.start", "http.response.body", "http.response.body"]


async def test_an_engine_that_fails_after_the_head_gives_an_error_with_its_shape(api) -> None:
    """Nothing was sent yet, so the client gets a 500 that it can read, instead of a connection that ends."""

    async def engine(scope, receive, send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        raise RuntimeError("the engine broke")

    answer = await api(engine).chat()
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert answer.headers["x-request-id"] in answer.json()["error"]["message"]


async def test_facts_and_metrics_tell_the_numbers_and_no_secret(api) -> None:
    """Settings, what runs, what was refused; never a key."""
    server = api(settings=ApiSettings(served_names=("demo",), keys_file="/run/keys"), keys="sk-b")
    await server.client.get("/v1/models")
    facts = await server.client.get("/windlass/facts", headers=KEY)
    assert facts.json()["models"] == ["demo"]
    assert facts.json()["limits"] == {
        "bodyBytes": 32 * 1024**2,
        "jsonBytes": 8 * 1024**2,
        "concurrency": 128,
        "queue": 512,
    }
    assert (facts.json()["running"], facts.json()["waiting"], facts.json()["refused"]) == (0, 0, {"401": 1})
    assert "sk-b" not in facts.text
    metrics = (await server.client.get("/windlass/metrics")).text
    assert 'windlass_api_requests_refused_total{status="401"} 1\n' in metrics
    assert "windlass_api_requests_running 0\n" in metrics
    assert "windlass_api_wait_seconds_count 0\n" in metrics
    assert "windlass_api_unread_bytes 0\n" in metrics
    assert "windlass_api_readers_ended_total 0\n" in metrics
    assert "windlass_api_body_bytes 0\n" in metrics


async def test_the_chat_page_is_open(api, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the headers that it asks for."""
    page = SimpleNamespace(page=lambda: (b"<p>", {"Content-Type": "text/html; charset=utf-8", "X-Own": "1"}))
    monkeypatch.setitem(sys.modules, "windlass.chat_page", page)
    answer = await api(keys="sk-a").client.get("/chat")
    assert (answer.status_code, answer.content, answer.headers["x-own"]) == (200, b"<p>", "1")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_requests_over_the_limit_wait_and_over_the_queue_are_refused(api) -> None:
    """One runs, one waits, one is told to come back."""
    hold = asyncio.Event()
    server = api(Engine(hold=hold), ApiSettings(concurrency=1, queue=1))
    two = [asyncio.create_task(server.chat()) for _ in range(2)]
    await wait_until_async(lambda: server.guard.state.gate.waiting == 1)
    third = await server.chat()
    assert (third.status_code, third.headers["retry-after"].isdigit()) == (429, True)
    numbers = (await server.client.get("/windlass/facts")).json()
    assert (numbers["running"], numbers["waiting"]) == (1, 1)
    hold.set()
    assert [(await one).status_code for one in two] == [200, 200]
    assert server.engine.most == 1


async def test_listings_do_not_wait(api) -> None:
    """Only what occupies the engine takes a place."""
    hold = asyncio.Event()
    server = api(Engine(hold=hold), ApiSettings(concurrency=1, queue=0))
    running = asyncio.create_task(server.chat())
    await wait_until_async(lambda: server.engine.running == 1)
    listing = asyncio.create_task(server.client.get("/v1/models"))
    await wait_until_async(lambda: server.engine.running == 2)
    hold.set()
    assert [(await running).status_code, (await listing).status_code] == [200, 200]


async def test_settings_travel_as_json() -> None:
    """What the launcher writes is what the guard reads."""
    assert ApiSettings.from_json(SETTINGS.to_json()) == SETTINGS
    assert ApiSettings.from_json("") == ApiSettings()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"queue": -1}', 'field "queue" of variable WINDLASS_API is -1; write a whole number of at least 0'),
        ('{"concurrency": 0}', "at least 1"),
        ('{"concurrency": true}', "at least 1"),
        ('{"image_domains": ["10.0.0.1"]}', "host names"),
        ('{"image_domains": ["https://x.example"]}', "host names"),
        ('{"image_domains": ["*"]}', "host names"),
        ('{"served_names": "demo"}', "a list of names"),
        ('{"colour": 1}', 'unknown field "colour"'),
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_wrong_settings_are_refused(document: str, words: str) -> None:
    """With the field and what to write."""
    with pytest.raises(UsageError) as caught:
        ApiSettings.from_json(document)
    assert words in str(caught.value)
