"""The variables of licensing."""

import pytest
from windlass.errors import UsageError
from windlass.license.settings import DEFAULT_ADDRESSES, LicenseSettings, addresses, read
from windlass_testbed.cases import every_case


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, DEFAULT_ADDRESSES),
        ({"WINDLASS_LS_ADDR": "http://a:1/, b:2"}, ("http://a:1", "http://b:2")),
        ({"WINDLASS_LS_ADDR": "https://a"}, ("https://a",)),
        ({"WINDLASS_LS_ADDR": "[fd00::1]:10080"}, ("http://[fd00::1]:10080",)),
        ({"WINDLASS_LS_ADDR": "ü.svc:1"}, ("http://ü.svc:1",)),
        ({"TACO_LS_ADDR": "c:3"}, ("http://c:3",)),
        ({"WINDLASS_LS_ADDR": "a:1", "TACO_LS_ADDR": "c:3"}, ("http://a:1",)),
        ({"WINDLASS_LS_ADDR": " , "}, DEFAULT_ADDRESSES),
    ],
)
def test_addresses(environment: dict[str, str], expected: tuple[str, ...]) -> None:
    """L6: variables override the Service's default names: kube-system's first, then one's own namespace's."""
    assert expected == addresses(environment)
    assert [url.split("//")[1] for url in DEFAULT_ADDRESSES] == [
        "windlass-license-server.kube-system.svc.cluster.local:10080",
        "windlass-license-server:10080",
    ]


NO_HOSTS = ("http://ü..svc:1", "http://xn--a:1", "ü" * 70, "https://\udcff:1", "a\x7f:1")


@every_case("address", ["ftp://a:1", "http://", "a:port", "a b:1", "a:0", "[::1:10080", "a:99999", *NO_HOSTS])
@every_case("variable", ["WINDLASS_LS_ADDR", "TACO_LS_ADDR"])
def test_no_address(variable: str, address: str) -> None:
    """What cannot be an address is told with the variable's name before anything is asked."""
    with pytest.raises(UsageError, match=f'variable {variable} has ".*", which is no address; write it as host:10080'):
        read({variable: address})
    with pytest.raises(UsageError) as wrong:
        read({variable: f"b:1, {address}"})
    str(wrong.value).encode()  # it goes to standard output, which takes no half characters


def test_all_variables() -> None:
    """Each has its place, and none is needed."""
    said = {
        "WINDLASS_LICENSE_REQUIRED": "off",
        "WINDLASS_LICENSE_WAIT": "0",
        "WINDLASS_LICENSE_TIMEOUT": "2.5",
        "WINDLASS_LS_ADDR": "a:1",
        "WINDLASS_LS_CA": "/ca.pem",
    }
    assert LicenseSettings(False, ("http://a:1",), 2.5, 0.0, "/ca.pem") == read(said)
    assert LicenseSettings(True, DEFAULT_ADDRESSES, 30.0, None, "") == read({})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("WINDLASS_LICENSE_REQUIRED", "perhaps", "write true or false"),
        ("WINDLASS_LICENSE_WAIT", "soon", "write seconds or 0, or leave it unset"),
        ("WINDLASS_LICENSE_WAIT", "-1", "write seconds or 0, or leave it unset"),
        ("WINDLASS_LICENSE_WAIT", "nan", "write seconds or 0, or leave it unset"),
        ("WINDLASS_LICENSE_TIMEOUT", "0", "write seconds above 0, or leave it unset"),
        ("WINDLASS_LICENSE_TIMEOUT", "inf", "write seconds above 0, or leave it unset"),
    ],
)
def test_wrong_values(name: str, text: str, said: str) -> None:
    """One sentence with the variable and what to write."""
    with pytest.raises(UsageError, match=f'variable {name} is "{text}"; {said}'):
        read({name: text})
