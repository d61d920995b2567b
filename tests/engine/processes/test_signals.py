"""No import of ours changes what the engine does on a signal: it ends by SIGTERM, idle or not."""


def test_no_import_changes_a_signal(engine):
    found = engine.result("/repo/tests/engine/processes/print_signal_changes.py")
    assert {"windlass.engine.nvrtc", "windlass.engine.quantization.plugin", "windlass.engine.lookahead.plugin"} <= set(
        found["imported"]
    )
    assert found["changed"] == []
