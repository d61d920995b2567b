"""The command line of `kubectl windlass license`. Imports nothing but the standard library."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable

AddCommand = Callable[[str, str, Iterable[tuple[str, str]]], argparse.ArgumentParser]
DAYS_MAX = 36_500


def add_actions(add: AddCommand) -> None:
    """The four things that can be done about a cluster's license."""
    for action in (_init, _status, _renew, _add_gpus):
        action(add)


def _init(add: AddCommand) -> None:
    one = add(
        "init",
        "license the GPUs of this cluster: name them, make a key, sign, feed the license server; again changes nothing",
        (
            ("kubectl windlass license init", "a year, every GPU of the cluster, as many at a time as there are"),
            ("kubectl windlass license init --customer 'Example Ltd' --days 90 --limit 8", "other terms"),
            ("kubectl windlass license init --chart ./windlass-license-server-0.2.0.tgz", "install the server, too"),
            ("kubectl windlass license init --dry-run", "what would be done"),
        ),
    )
    _terms(one)
    _key(one)
    _gpus(one)
    _server(one)
    one.add_argument("--chart", metavar="PATH", help="chart to install with helm where no license server is")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a value of that chart")
    one.add_argument("--replace", action="store_true", help="replace a license that another key signed")
    one.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")


def _status(add: AddCommand) -> None:
    one = add(
        "status",
        "show license servers, the license in force, its end, leases, and GPUs that it does not name",
        (
            ("kubectl windlass license status", "by numbers; nothing is started in the cluster"),
            ("kubectl windlass license status --scan", "which GPUs are not licensed, by asking every node"),
        ),
    )
    one.add_argument("--scan", action="store_true", help="name every GPU, by a Job on each node, as init does")
    _gpus(one)
    _server(one)


def _renew(add: AddCommand) -> None:
    one = add(
        "renew",
        "sign the license in force again with a later end: the same GPUs, the same terms where none is named",
        (("kubectl windlass license renew --days 365", "a year from now"),),
    )
    _terms(one)
    _key(one)
    _server(one)


def _add_gpus(add: AddCommand) -> None:
    one = add(
        "add-gpus",
        "name the cluster's GPUs again and add the new ones to the license in force; none is taken out",
        (("kubectl windlass license add-gpus", "after a node has come"),),
    )
    _terms(one)
    _key(one)
    _gpus(one)
    _server(one)


def _terms(one: argparse.ArgumentParser) -> None:
    one.add_argument("--customer", metavar="TEXT", help="who the license is for (default: self-issued)")
    one.add_argument("--appid", metavar="N", help="the customer's number (default: 1)")
    one.add_argument("--days", type=_days, metavar="N", help="how long it lasts from now (default: 365)")
    one.add_argument("--limit", type=_whole, metavar="N", help="GPUs in use at a time; 0 (default) is no limit")


def _key(one: argparse.ArgumentParser) -> None:
    one.add_argument("--key", metavar="FILE", help="private key that signs (default: the folder's, which init makes)")
    one.add_argument("--folder", metavar="DIR", help="keys and licenses (default: ~/.config/windlass/license)")
    one.add_argument("--issuer", metavar="FILE", help="the program windlass-license (default: beside this one)")


def _gpus(one: argparse.ArgumentParser) -> None:
    files = "files with the output of nvidia-smi -L, instead of asking the nodes"
    one.add_argument("--gpus", nargs="+", action="extend", default=[], metavar="FILE", help=files)
    image = "image of the Jobs that name GPUs (default: the license server's, which the cluster has)"
    one.add_argument("--image", help=image)
    one.add_argument("--runtime-class", metavar="NAME", help="runtime class of those Jobs, where GPUs need one")
    missing = "go on where some GPUs could not be named; they stay unlicensed"
    one.add_argument("--allow-missing", action="store_true", help=missing)


def _server(one: argparse.ArgumentParser) -> None:
    one.add_argument("--address", metavar="URL", help="ask the license server there, not through a port-forward")
    one.add_argument("--token", help="its admin token (default: read from its Secret)")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _days(text: str) -> int:
    days = _whole(text)
    if not 1 <= days <= DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to {DAYS_MAX}")
    return days
