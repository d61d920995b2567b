"""The console as the chart installs it: its pages, and two users of different rights. `make demo-console` has more."""

import sys
from pathlib import Path

import httpx2
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import console_site

CSRF = {"X-Windlass-Console": "1"}
BODY = {"metadata": {"name": "dry"}, "spec": {"model": {"id": "demo", "source": {"pvc": {"claimName": "models"}}}}}


@pytest.fixture(scope="module")
def url(bed):
    with console_site.installed(bed) as address:
        yield address


@pytest.fixture(scope="module")
def users(bed, namespace):
    """Clients of one who deploys and of one who only reads; each sends its token as an ingress would."""
    with console_site.users(bed, namespace) as tokens:
        yield tokens


def ask(url, token, method, path, **body):
    headers = {"Authorization": f"Bearer {token}", **CSRF}
    return httpx2.request(method, f"{url}/api/{path}", headers=headers, timeout=60, trust_env=False, **body)


def test_the_pages_come_with_their_policy(url):
    """From the image, under the chart's probes and NetworkPolicy."""
    page = httpx2.get(f"{url}/", timeout=60, trust_env=False)
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    module = httpx2.get(f"{url}/app.js", timeout=60, trust_env=False)
    assert module.headers["content-type"].startswith("text/javascript")


def test_each_user_has_the_rights_of_the_token(url, users, namespace):
    """What is not allowed is not offered, and the API server refuses it all the same."""
    deployer, reader = users
    offered = [ask(url, token, "GET", "permissions", params={"namespace": namespace}).json()["can"] for token in users]
    assert [(one["create"], one["delete"], one["chat"], one["nodes"]) for one in offered] == [(True,) * 4, (False,) * 4]
    path = f"services/{namespace}?dryRun=true"
    assert ask(url, deployer, "POST", path, json=BODY).status_code == 201
    refused = ask(url, reader, "POST", path, json=BODY)
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")
    assert ask(url, "nobody", "GET", "session").status_code == 401
