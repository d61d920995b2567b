"""The names that NVIDIA gives to GPUs and MIG devices, and which of them a request may use. Pure.

    GPU-<uuid>                  a GPU
    MIG-<uuid>                  a MIG device of current drivers; a license covers it only when it lists it
    MIG-GPU-<uuid>/<gi>/<ci>    a MIG device of drivers before 470: GPU instance and compute instance of a GPU

The numbers of the last form are bounded by the hardware, so that one card has a bounded number of names.
"""

import re

GPU_INSTANCE_MAX = 15
"""The driver numbers the GPU instances of one card from 0 to 14; one more as a margin."""
COMPUTE_INSTANCE_MAX = 7
"""A card has seven compute slices, so compute instances have the numbers 0 to 6; one more as a margin."""
_UUID = "[0-9A-Za-z-]{1,64}"
DEVICE_PATTERN = rf"^(GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/([0-9]|1[0-5])/[0-7])$"
_DEVICE = re.compile(DEVICE_PATTERN.strip("^$"))
_OLD_MIG = re.compile(rf"MIG-(GPU-{_UUID})/([0-9]|1[0-5])/[0-7]")


def is_device(text: str) -> bool:
    """Whether a text is the name of a GPU or of a MIG device in one of the documented forms."""
    return _DEVICE.fullmatch(text) is not None


def mig_parent(device: str) -> str | None:
    """The GPU named inside an old-style MIG device, else None."""
    found = _OLD_MIG.fullmatch(device)
    return found[1] if found else None
