"""Where the engine's API answers, out of the words of its command line."""

import pytest
from windlass.errors import UsageError
from windlass.launch.listening import address


@pytest.mark.parametrize(
    ("words", "root"),
    [
        ("", "http://127.0.0.1:8501"),
        ("--host 0.0.0.0", "http://127.0.0.1:8501"),
        ("--host=::", "http://127.0.0.1:8501"),
        ("--host 10.1.2.3", "http://10.1.2.3:8501"),
        ("--host ::1", "http://[::1]:8501"),
        ("--host 10.1.2.3 --host 127.0.0.2", "http://127.0.0.2:8501"),
        ("--ssl-certfile /tls/tls.crt --ssl-keyfile /tls/tls.key", "https://127.0.0.1:8501"),
        ("--ssl_certfile=/tls/both.pem", "https://127.0.0.1:8501"),
        ("--ssl-cert /tls/both.pem --ssl-cert-reqs 0", "http://127.0.0.1:8501"),
        ("--ssl-certf /tls/both.pem --ssl-cert-reqs 1", "https://127.0.0.1:8501"),
        ("--served-model-name --host", "http://127.0.0.1:8501"),
    ],
)
def test_where_it_answers(words: str, root: str) -> None:
    """TLS and the host follow the engine's own spellings; a beginning of several flags is none of them."""
    assert address(words.split(), 8501) == root


@pytest.mark.parametrize("word", ["--uds /run/api.sock", "--uds=/run/api.sock"])
def test_an_api_without_a_port_is_refused(word: str) -> None:
    """No probe could ask it."""
    with pytest.raises(UsageError, match="--uds leaves the API without a port"):
        address(word.split(), 8501)


def test_certificates_of_clients_are_refused() -> None:
    """Neither the kubelet nor the supervisor has one."""
    with pytest.raises(UsageError, match=r"--ssl-cert-reqs 2 asks every client for a certificate.*in front of"):
        address(["--ssl-cert-reqs", "2", "--ssl-certfile", "c"], 8501)
