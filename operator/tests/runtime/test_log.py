"""What others say cannot write lines into the operator's log."""

import logging

from windlass_operator.runtime.log import OneLine


def a_line(*message, **more):
    record = logging.LogRecord("windlass_operator.reconcile.reconciler", logging.INFO, "", 0, *message, **more)
    return OneLine("%(levelname)s %(message)s").format(record)


def test_a_quoted_text_stays_on_its_line():
    """A pod's last words are anything: another record, a traceback, what a terminal obeys."""
    said = "x\nERROR all is lost\r\x1b[2J\x00\u2028\ud800 größer"
    text = a_line("%s", (said,), exc_info=None)
    assert text == r"INFO x\nERROR all is lost\r\x1b[2J\x00\u2028\ud800 größer"


def test_an_exception_of_ours_is_whole():
    try:
        raise ValueError("boom")
    except ValueError as error:
        text = a_line("failed", (), exc_info=(type(error), error, error.__traceback__))
    assert text.startswith("INFO failed\nTraceback (most recent call last):\n")
