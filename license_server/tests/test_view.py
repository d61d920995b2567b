"""The YAML view, in the manual's shape."""

from datetime import datetime

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_license.http.view import scalar, view
from windlass_license.rules.model import License, LicensedGpu

ISSUED = datetime.fromisoformat("2024-09-06T10:43:54.427014+08:00")
EXPIRES = datetime.fromisoformat("2025-09-06T10:43:54.427014+08:00")

EXPECTED = """\
appid: "1234"
customer: leolingli
accesslimit: 0
gpuinfos:
- uuid: "1234"
  brand: Fake Brand
  issuedtime: 2024-09-06T10:43:54.427014+08:00
  expiredtime: 2025-09-06T10:43:54.427014+08:00
- uuid: GPU-4c34f7a2-cd33-469b-019f-9af0bb76a073
  brand: Tesla T4
  issuedtime: 2024-09-06T10:43:54.427014+08:00
  expiredtime: 2025-09-06T10:43:54.427014+08:00
"""


def test_the_manual_s_example() -> None:
    """The fields, their order and their quoting are the manual's."""
    rows = (
        LicensedGpu("GPU-4c34f7a2-cd33-469b-019f-9af0bb76a073", "Tesla T4", ISSUED, EXPIRES),
        LicensedGpu("1234", "Fake Brand", ISSUED, EXPIRES),
    )
    assert view(License("1234", "leolingli", 0, rows)) == EXPECTED


@given(st.one_of(st.text(st.characters(codec="utf-8")), st.sampled_from(["no", "Null", "1e3", "a: b", "0x1", "- a"])))
@settings(deadline=None)
def test_scalars_read_back(text: str) -> None:
    """Whatever a name holds, a YAML reader gets the same string."""
    assert yaml.safe_load(f"a: {scalar(text)}\n") == {"a": text}
