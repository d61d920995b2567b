"""Sessions: the token lies encrypted in the cookie, and nowhere else that a page can read."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from contextlib import ExitStack

import pytest
from windlass_base.kube.errors import UnauthorizedError
from windlass_console.errors import NOT_ACCEPTED, FullError, TooManyRequestsError, TooManyStreamsError, UnusableError
from windlass_console.identity import pool
from windlass_console.identity.pool import REQUESTS_MAX, STREAMS_MAX
from windlass_console.identity.seal import COOKIE_MAX, Seal
from windlass_console.identity.token import expiry_of, namespace_of, usable
from windlass_testbed.waiting import HANG_S, wait_until_async

NOW = 1_800_000_000
TOKENS_MAX = 4


def jwt(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


async def test_no_answer_holds_the_token(start):
    """Neither in the body nor in clear in the cookie, which scripts cannot read and other sites do not send."""
    browser, token = start(), jwt(sub="ann")
    answer = await browser.post("/api/session", json={"token": token})
    cookie = answer.headers["set-cookie"]
    assert token not in answer.text + str(answer.headers)
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/"))
    assert (await browser.get("/api/session")).json()["user"] == "ann"


async def test_the_cookie_is_for_https_alone_unless_that_is_switched_off(start):
    answer = await start(secure_cookie=True).post("/api/session", json={"token": "ann"})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"secure_cookie": True}, "__Host-windlass_session"),
        ({"secure_cookie": True, "prefix": "/console"}, "__Secure-windlass_session"),
        ({"prefix": "/console"}, "windlass_session"),
    ],
)
async def test_no_other_host_can_set_the_cookie_where_the_browser_checks_its_name(start, settings, name):
    """Browsers take __Host- with the path / alone, and both prefixes over HTTPS alone."""
    answer = await start(**settings).post("/api/session", json={"token": "ann"})
    assert answer.headers["set-cookie"].startswith(f"{name}=")


async def test_each_call_has_the_users_own_token(start, kube):
    """Two users in one process."""
    ann, ben = start(), start()
    await ann.post("/api/session", json={"token": "ann"})
    kube.asked.clear()
    await ann.get("/api/session")
    assert kube.tokens == {"Bearer ann"}
    kube.asked.clear()
    assert (await ben.get("/api/session", headers={"Authorization": "Bearer ben"})).json()["via"] == "header"
    assert kube.tokens == {"Bearer ben"}


async def test_the_ingress_says_who_asks_and_an_old_cookie_goes(start, kube):
    """Ben signs in by OIDC in a browser that still has Ann's cookie."""
    browser = start()
    await browser.post("/api/session", json={"token": "ann"})
    same = await browser.get("/api/session", headers={"Authorization": "Bearer ann"})
    assert "set-cookie" not in same.headers
    kube.asked.clear()
    answer = await browser.get("/api/session", headers={"Authorization": "Bearer ben"})
    assert (answer.json()["via"], kube.tokens) == ("header", {"Bearer ben"})
    assert answer.headers["set-cookie"].startswith('windlass_session=""; ')
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await browser.get("/api/session")).status_code == 401


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}, {"Cookie": "windlass_session=x"}]
)
async def test_nobody_is_nobody(start, kube, headers):
    for path in ("/api/session", "/api/services?namespace=*", "/api/capacity", "/api/permissions?namespace=a"):
        answer = await start().get(path, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, "SignIn")
    assert kube.asked == []


async def test_a_token_that_ended_meanwhile_asks_to_sign_in(ann, kube):
    status = {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"}
    kube.on("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", 401, status)
    assert ((answer := await ann.get("/api/session")).status_code, answer.json()["reason"]) == (401, "SignIn")


@pytest.mark.parametrize(
    "path", ["/api/session", "/api/services?namespace=team-a", "/api/permissions?namespace=team-a"]
)
async def test_a_token_that_is_not_accepted_is_a_sentence_with_a_remedy(start, kube, path):
    """The API server says "Unauthorized" alone, whatever was asked."""
    status = {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"}
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    kube.on("POST", review, 401, status)
    kube.on("GET", "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices", 401, status)

    def ended(_: object) -> bool:
        raise PermissionError

    kube.allowed = ended
    answer = await start().get(path, headers={"Authorization": "Bearer ended"})
    assert (answer.status_code, answer.json()["error"]) == (401, NOT_ACCEPTED)
    assert "kubectl create token" in NOT_ACCEPTED


@pytest.mark.parametrize("token", ["", "two words", "x" * 20_000])
async def test_text_that_is_no_token_has_its_own_sentence(start, kube, token):
    """The API server is not asked."""
    answer = await start().post("/api/session", json={"token": token})
    assert (answer.status_code, "paste the output of kubectl create token" in answer.json()["error"]) == (422, True)
    assert kube.asked == []


def test_a_cookie_of_another_key_or_changed_by_a_bit_or_ended_is_none():
    seal = Seal(b"k" * 32)
    value = seal.close("token", NOW)
    assert seal.open(value, NOW - 1) == ("token", NOW)
    assert Seal(b"k" * 32).open(value, NOW - 1) == ("token", NOW)
    assert seal.open(value, NOW) is None
    assert Seal(b"other" * 8).open(value, NOW - 1) is None
    assert Seal().open(value, NOW - 1) is None
    for place in range(0, len(value), 7):
        changed = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        assert seal.open(changed, NOW - 1) is None
    for junk in ("", "x", "é", "A" * (COOKIE_MAX + 1)):
        assert seal.open(junk, 0) is None


def test_a_token_that_no_cookie_holds_is_refused_by_a_sentence():
    seal = Seal()
    assert len(seal.close("x" * 2800, NOW)) <= COOKIE_MAX
    with pytest.raises(UnusableError, match="more than a cookie holds"):
        seal.close("x" * 3000, NOW)


@pytest.mark.parametrize("text", ["", "a b", "a\r\nX: y", "Bearer x", "тест", "x" * 20_000])
def test_what_is_no_token_never_becomes_a_header(text):
    with pytest.raises(UnusableError):
        usable(text)


def test_what_a_token_says_of_itself():
    """Read for the page alone; what cannot be read is nothing."""
    account = {"namespace": "team-a", "serviceaccount": {"name": "ann"}}
    assert namespace_of(jwt(**{"kubernetes.io": account})) == "team-a"
    assert namespace_of(jwt(sub="system:serviceaccount:team-b:ann")) == "team-b"
    assert (namespace_of("opaque"), namespace_of("a.!.c"), namespace_of(jwt(sub=7))) == ("", "", "")
    assert expiry_of(jwt(exp=NOW)) == NOW
    assert [expiry_of(jwt(exp=value)) for value in ("soon", True, -1, 1e300, None)] == [None] * 5


async def test_a_session_ends_with_its_token(start):
    """Whole seconds, counted while it signs in."""
    ends = int(time.time()) + 3600
    answer = await start().post("/api/session", json={"token": jwt(sub="ann", exp=ends)})
    age = int(answer.headers["set-cookie"].partition("Max-Age=")[2].partition(";")[0])
    signed_in_s = time.time()
    assert ends - signed_in_s - 1 <= age <= 3600


async def test_signing_in_asks_anew_for_rights(ann, kube):
    """A namespace or a right that came meanwhile is there at once."""
    assert [one["name"] for one in (await ann.get("/api/session")).json()["namespaces"]] == ["team-a"]
    kube.on("GET", "/api/v1/namespaces", 200, {"items": [{"metadata": {"name": "team-b"}}]})
    assert [one["name"] for one in (await ann.get("/api/session")).json()["namespaces"]] == ["team-a"]
    again = await ann.post("/api/session", json={"token": "ann"})
    assert [one["name"] for one in again.json()["namespaces"]] == ["team-b"]


async def test_idle_users_are_let_go_and_streams_hold_them(ann):
    """A stream keeps its user; without one the client is closed, and made again when the user comes back."""
    identities = ann._transport.app.inner.state.console.identities
    one = identities.of("ann")
    with one.stream():
        await identities.let_idle_go(time.monotonic() + 1)
        assert identities.of("ann") is one
    assert one.streams == 0
    await identities.let_idle_go(time.monotonic() + 1)
    assert identities.of("ann") is not one


REVIEW = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")


async def test_tokens_that_the_api_server_refuses_take_no_users_place(ann, kube, monkeypatch):
    """Anybody can send tokens; a user's client is closed for those alone that the API server accepts."""
    monkeypatch.setattr(pool, "IDENTITIES_MAX", 1)
    identities = ann._transport.app.inner.state.console.identities
    one = identities.of("ann")
    accepted = kube.answers[REVIEW]
    kube.on(*REVIEW, 401, {"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"})
    for number in range(pool.UNPROVEN_MAX + 1):
        with pytest.raises(UnauthorizedError):
            async with identities.asked(f"guess-{number}"):
                pass
    assert (identities.of("ann") is one, len(identities._unproven)) == (True, 0)
    kube.on(*REVIEW, *accepted)
    async with identities.asked("ben"):
        assert identities.of("ann") is not one


async def test_a_client_is_not_closed_while_it_answers(ann, monkeypatch):
    """Neither for another user nor as idle; where all are at work, one more is refused."""
    monkeypatch.setattr(pool, "IDENTITIES_MAX", 1)
    identities = ann._transport.app.inner.state.console.identities
    async with identities.asked("ann") as one:
        with pytest.raises(FullError):
            async with identities.asked("ben"):
                pass
        await identities.let_idle_go(time.monotonic() + 1)
        assert identities.of("ann") is one
        assert await one.user() == ("ann", ["system:authenticated"])
    async with identities.asked("ben"):
        assert identities.of("ann") is not one


async def test_sign_ins_beyond_the_bound_wait_for_the_api_servers_answer(ann, monkeypatch):
    monkeypatch.setattr(pool, "UNPROVEN_MAX", 1)
    identities = ann._transport.app.inner.state.console.identities
    identities.of("slow").requests += 1
    with pytest.raises(FullError, match="try again"):
        identities.of("other")
    async with identities.asked("ann"):
        pass


async def test_a_user_holds_so_many_streams_and_no_more(ann):
    """Another user still gets one, and so does this one after an end."""
    identities = ann._transport.app.inner.state.console.identities
    one = identities.of("ann")
    with ExitStack() as held:
        for _ in range(STREAMS_MAX - 1):
            held.enter_context(one.stream())
        for _ in range(2):
            with one.stream(), pytest.raises(TooManyStreamsError, match=f"you hold {STREAMS_MAX} streams"):
                one.stream().__enter__()
            with identities.of("ben").stream():
                assert (one.streams, identities.of("ben").streams) == (STREAMS_MAX - 1, 1)
    assert one.streams == 0


async def test_so_many_requests_of_a_token_are_under_way_and_no_more(ann):
    """Streams have places of their own, and another user is served meanwhile."""
    identities = ann._transport.app.inner.state.console.identities
    async with identities.asked("ann") as one:
        with ExitStack() as held:
            for _ in range(STREAMS_MAX):
                held.enter_context(one.request())
                held.enter_context(one.stream())
            for _ in range(REQUESTS_MAX - 1):
                held.enter_context(one.request())
            answer = await ann.get("/api/session")
            assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyRequests")
            assert f"{REQUESTS_MAX} requests under way" in answer.json()["error"]
            async with identities.asked("ben"):
                pass
        assert (await ann.get("/api/session")).status_code == 200


async def test_an_account_has_so_many_tokens_at_a_time(ann, monkeypatch):
    """An idle one goes for a new one; where all are in use, one more is refused, and another account is not."""
    monkeypatch.setattr(pool, "TOKENS_MAX", TOKENS_MAX)
    identities = ann._transport.app.inner.state.console.identities
    with ExitStack() as held:
        for number in range(TOKENS_MAX):
            async with identities.asked(f"token-{number}") as one:
                held.enter_context(one.stream())
        assert len(identities._known) == TOKENS_MAX  # the first token of Ann has made room
        with pytest.raises(TooManyRequestsError, match=f"account ann uses {TOKENS_MAX} tokens"):
            async with identities.asked("one-more"):
                pass
    async with identities.asked("one-more"):
        assert len(identities._known) == TOKENS_MAX


async def test_a_token_waits_for_its_turn_before_the_api_server(start, kube, monkeypatch):
    """In the order of coming; one that waits too long is refused by a sentence."""
    monkeypatch.setattr(pool, "UNPROVEN_MAX", 1)
    monkeypatch.setattr(pool, "SIGN_IN_S", 0.2)
    browser = start()
    identities = browser._transport.app.inner.state.console.identities
    await identities._turn.acquire()
    answer = await browser.post("/api/session", json={"token": "ben"})
    assert (answer.status_code, answer.json()["reason"]) == (503, "Full")
    monkeypatch.setattr(pool, "SIGN_IN_S", HANG_S)
    asked = asyncio.create_task(browser.post("/api/session", json={"token": "ben"}))
    await wait_until_async(lambda: identities._turn._waiters)
    identities._turn.release()
    assert (await asked).status_code == 200
