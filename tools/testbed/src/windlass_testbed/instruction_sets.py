"""The instruction set of the serving image: the machine's own, or AVX2 alone by `make test ISA=avx2`."""

from collections.abc import Mapping

from windlass_testbed.errors import BedError

VARIABLE = "WINDLASS_ISA"
LIMITED = {"avx2": "-avx2"}
"""Endings of an image's name, by the variable's value."""
SERVING = "server-cpu"


def image_name(name: str, environment: Mapping[str, str]) -> str:
    """Return the image to take in the place of `name`: the serving image has a variant for each limit."""
    limit = environment.get(VARIABLE, "")
    if limit and limit not in LIMITED:
        raise BedError(f"{VARIABLE}={limit} is unknown; there is {', '.join(LIMITED)}, or leave it out")
    return name + LIMITED[limit] if limit and name == SERVING else name
