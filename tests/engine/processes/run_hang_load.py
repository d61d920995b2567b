"""`make hang-load`: the demo model under heavy load for MINUTES; an alarm of an engine that hangs is a failure."""

import os

from .hang_checks import load


def test_no_false_alarm(engine):
    """With a floor far below the default one."""
    words = "windlass run --dtype float32 --max-model-len 1024 --served-model-name demo"
    with engine.serving(*words.split(), WINDLASS_STALL_TIMEOUT="10") as url:
        answered, heard = load(url, 60 * float(os.environ.get("MINUTES", "30")))
        print(f"{answered} answers, probes heard {sorted(heard)}")
        assert (heard, "has ended no step" in engine.output(url)) == ({200}, False)
