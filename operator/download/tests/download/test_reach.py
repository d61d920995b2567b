"""From where an address can be reached, in each of the forms that it can be written in."""

from __future__ import annotations

import pytest
from windlass_download.errors import UserError
from windlass_download.reach import Reach, Side, literal, side
from windlass_testbed.cases import every_case

ADDRESSES = {
    "93.184.216.34": Side.PUBLIC,
    "2606:4700::1": Side.PUBLIC,
    "10.1.2.3": Side.PRIVATE,
    "172.16.0.1": Side.PRIVATE,
    "192.168.0.1": Side.PRIVATE,
    "100.100.100.200": Side.PRIVATE,
    "198.18.0.1": Side.PRIVATE,
    "fd00:ec2::254": Side.PRIVATE,
    "::ffff:10.1.2.3": Side.PRIVATE,
    "64:ff9b::a01:203": Side.PRIVATE,
    "2002:a01:203::": Side.PRIVATE,
    "127.0.0.1": Side.HOST,
    "0.0.0.0": Side.HOST,
    "::1": Side.HOST,
    "::": Side.HOST,
    "::ffff:127.0.0.1": Side.HOST,
    "169.254.169.254": Side.NEVER,
    "fe80::1%eth0": Side.NEVER,
    "::ffff:169.254.169.254": Side.NEVER,
    "224.0.0.1": Side.NEVER,
}


@every_case("address, expected", ADDRESSES.items())
def test_the_side_of_an_address(address, expected):
    assert side(address) is expected


def test_before_the_endpoint_is_known_only_public_addresses_are_reached():
    with pytest.raises(UserError) as refused:
        Reach("hub.example").allowed("cdn.example", ["10.0.0.1"])
    assert refused.value.reason == "HubAnswerBroken"
    assert "spec.model.download.endpoint" in refused.value.message


def test_what_is_an_address_already():
    assert (literal("10.0.0.1"), literal("::1"), literal("hub.example"), literal("2130706433")) == (
        "10.0.0.1",
        "::1",
        "",
        "",
    )
