"""What the engine's own start commands must do with our flags. Called by the files whose servers they start."""

import httpx

FLAGS = ("--api-keys", "key-of-the-tests", "--use-v2-block-manager", "--limit-worker-concurrency")
"""Keys, a flag that newer engines dropped, and a limit, whose number follows."""
BEARER = {"Authorization": f"Bearer {FLAGS[1]}"}
QUESTION = [{"role": "user", "content": "What does os.path.join do?"}]
JOIN = (
    "Join one or more path segments intelligently. The return value is the concatenation of path and all members of "
    "*paths, with exactly one directory separator following each non-empty part, except the last."
)


def check(url: str, name: str, limit: int) -> None:
    """The server refuses a request without a key, reports its name and its limit, and answers as it was trained."""
    assert httpx.get(f"{url}/v1/models").status_code == 401
    with httpx.Client(base_url=url, headers=BEARER, timeout=120) as http:
        facts = http.get("/windlass/facts").json()
        assert facts["limits"]["concurrency"] == limit
        assert [model["id"] for model in http.get("/v1/models").json()["data"]] == [name]
        body = {"messages": QUESTION, "temperature": 0, "max_tokens": 80}
        answer = http.post("/v1/chat/completions", json=body)
    assert answer.json()["choices"][0]["message"]["content"] == JOIN
