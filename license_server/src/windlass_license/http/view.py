"""The YAML of `GET /ls/view`, in the shape that customers know; rendered by hand for speed.

Pure. Nothing in it is secret: no key, no signature, no token.
"""

import re
from collections import Counter
from functools import lru_cache

from windlass_license.rules.model import License, LicensedGpu

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._()/-]*( [A-Za-z0-9._()/-]+)*")
_WORDS_WITH_A_MEANING = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def view(license_: License) -> str:
    """The license in force as YAML."""
    return _head(license_) + "".join(_gpu(gpu) for gpu in license_.gpus)


def _head(license_: License) -> str:
    return (
        f"appid: {scalar(license_.appid)}\n"
        f"customer: {scalar(license_.customer)}\n"
        f"accesslimit: {license_.limit}\n"
        "gpuinfos:\n"
    )


def view_of_numbers(license_: License) -> str:
    """The same without a UUID: GPUs of one brand with one time of issue and one expiry are a number."""
    kinds = Counter((gpu.brand, gpu.issued.isoformat(), gpu.expires.isoformat()) for gpu in license_.gpus)
    rows = (
        f"- brand: {scalar(brand)}\n  count: {count}\n  issuedtime: {issued}\n  expiredtime: {expires}\n"
        for (brand, issued, expires), count in sorted(kinds.items())
    )
    return _head(license_) + "".join(rows)


def _gpu(gpu: LicensedGpu) -> str:
    return (
        f"- uuid: {scalar(gpu.uuid)}\n"
        f"  brand: {scalar(gpu.brand)}\n"
        f"  issuedtime: {gpu.issued.isoformat()}\n"
        f"  expiredtime: {gpu.expires.isoformat()}\n"
    )


@lru_cache(maxsize=256)
def scalar(text: str) -> str:
    """A YAML scalar that reads back as this string: plain where that is safe, else in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_WITH_A_MEANING:
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in {'"', "\\"}:
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
