"""What every request and every answer goes through: headers, where a change may come from, sizes, the prefix."""

from __future__ import annotations

import httpx2
import pytest
from windlass_console.http.bodies import BODY_MAX, CHAT_MAX

ALWAYS = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PATCH = "/api/services/team-a/qwen"


@pytest.mark.parametrize("path", ["/", "/nowhere.js", "/api/session", "/api/nowhere", "/healthz", "/api/openapi.json"])
async def test_every_answer_has_the_headers(start, path):
    """Of pages, of the API, of refusals; no script but the console's own files, nobody's frame."""
    answer = await start().get(path)
    assert {name: answer.headers[name] for name in ALWAYS} == ALWAYS
    policy = answer.headers["content-security-policy"]
    assert all(part in policy for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"))
    assert not {"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} & set(policy.replace(";", "").split())
    kept = {"/": "no-cache", "/nowhere.js": None, "/healthz": None}
    assert answer.headers.get("cache-control") == kept.get(path, "no-store")


async def test_a_refusal_of_the_guard_has_them_too(ann):
    answer = await ann.patch(PATCH, json={}, headers={"Origin": "https://evil.test"})
    assert (answer.status_code, answer.headers["x-frame-options"], answer.headers["cache-control"]) == (
        403,
        "DENY",
        "no-store",
    )


@pytest.mark.parametrize(
    "forged",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://console.test.evil.test"},
        {"Origin": "http://console.test:8081"},
        {"X-Windlass-Console": ""},
        {"X-Windlass-Console": "2"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_forged_origin_changes_nothing(ann, kube, method, forged):
    """With the user's cookie; the API server is never asked."""
    before = len(kube.asked)
    answer = await ann.request(method, PATCH, json={}, headers=forged)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Origin")
    assert len(kube.asked) == before


async def test_an_origin_that_is_named_is_taken(start):
    """Where an ingress changes the header Host."""
    browser = start(origins=("https://console.example.com",))
    answer = await browser.post(
        "/api/session", json={"token": "ann"}, headers={"Origin": "https://console.example.com"}
    )
    assert answer.status_code == 200


async def test_another_site_reads_nothing_of_the_api(ann):
    """A link to the console works; its API and its files answer no other site."""
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        headers = {"Sec-Fetch-Site": site}
        assert (await ann.get("/api/session", headers=headers)).status_code == status
        assert (await ann.get("/", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("path", "size"),
    [("/api/plan", BODY_MAX), ("/api/services/team-a", BODY_MAX), ("/api/services/team-a/qwen/chat", CHAT_MAX)],
)
async def test_an_oversized_form_is_refused(ann, kube, path, size):
    """Before it is parsed, and without asking the API server; a length that is not announced is counted."""
    before = len(kube.asked)

    async def pieces():
        for _ in range(size // 1024 + 1):
            yield b"x" * 1024

    for content in (b"x" * (size + 1), pieces()):
        answer = await ann.post(path, content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["reason"]) == (413, "TooLarge")
    assert len(kube.asked) == before


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "nested deeper than 64"),
        (nested(600), "nested deeper than 64"),
        (nested(900), "nested deeper than 64"),
        (b"[" + b"{}," * 70_000 + b"1]", "more than 65536 values"),
    ],
    ids=["cut", "no text", "deep and cut", "600 deep", "900 deep", "many values"],
)
async def test_a_deep_or_broken_body_is_refused(ann, kube, content, sentence):
    """By a sentence of its own, before a route has it."""
    before = len(kube.asked)
    for path in ("/api/services/team-a", "/api/plan", "/api/session"):
        answer = await ann.post(path, content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
        assert answer.json()["error"] == f"the request's body cannot be read: {sentence}"
    assert len(kube.asked) == before


@pytest.mark.parametrize(
    ("method", "path", "status", "reason", "sentence"),
    [
        ("GET", "/api/nowhere", 404, "NotFound", "GET /api/nowhere is nothing here; see api/openapi.json"),
        ("POST", "/healthz", 405, "MethodNotAllowed", "/healthz does not take POST; see api/openapi.json"),
    ],
)
async def test_what_the_framework_refuses_says_why(ann, method, path, status, reason, sentence):
    answer = await ann.request(method, path)
    assert (answer.status_code, answer.json()["reason"], answer.json()["error"]) == (status, reason, sentence)


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz", "/readyz"])
async def test_a_head_gives_what_a_get_does_without_its_body(ann, path):
    """Load balancers and link checkers ask so."""
    asked, head = await ann.get(path), await ann.head(path)
    assert (head.status_code, head.headers["content-type"]) == (200, asked.headers["content-type"])
    assert (await ann.head("/nowhere.js")).status_code == 404
    assert (await ann.head("/api/services")).status_code == 405
    assert "head" not in str((await ann.get("/api/openapi.json")).json()["paths"]["/healthz"].keys())


@pytest.mark.parametrize(
    ("kind", "body"), [("text/plain", b'{"token": "a"}'), ("application/json", b"[1]"), ("application/json", b"")]
)
async def test_a_body_that_is_no_object_has_a_sentence_of_its_own(ann, kind, body):
    """With the header that makes JSON of it."""
    answer = await ann.post("/api/session", content=body, headers={"Content-Type": kind})
    said = {"error": "the body is no JSON object; send Content-Type: application/json", "reason": "BadRequest"}
    assert (answer.status_code, answer.json()) == (400, {**said, "fields": []})


async def test_a_prefix_is_known_with_and_without_the_ingress_taking_it_away(start, kube):
    """The cookie belongs to the prefix; the path without its slash leads to the one with it."""
    browser: httpx2.AsyncClient = start(prefix="/team/console")
    assert (await browser.get("/team/console")).headers["location"] == "/team/console/"
    assert (await browser.get("/team/console/")).headers["content-type"].startswith("text/html")
    answer = await browser.post("/team/console/api/session", json={"token": "ann"})
    assert "Path=/team/console;" in answer.headers["set-cookie"]
    assert (await browser.get("/healthz")).text == "ok\n"
    assert (await browser.get("/team/consolehealthz")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/api/services/..%2F..%2Fsecrets/qwen",
        "/api/services/team-a/..%2f..%2fkube-system%2fsecrets",
        "/api/services/Team-A/qwen",
        "/api/services/team-a/qwen%00",
        "/api/services?namespace=a,metadata.name=b",
        "/api/services?namespace=..",
        "/api/benchmarks/team-a/x%2fy",
    ],
)
async def test_a_name_that_is_none_is_never_asked_for(ann, kube, path):
    """No path leads out of a namespace or to another kind."""
    before = len(kube.asked)
    answer = await ann.get(path)
    assert answer.status_code in (400, 404), answer.text
    assert len(kube.asked) == before
