import logging

import pytest

from pipeline.session import suppress_py4j_logs


def _record(module: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, f"/lib/{module}.py", 1, "said", (), None)


@pytest.mark.usefixtures("loggers")
def test_py4j_messages_are_suppressed_in_all_loggers() -> None:
    for _ in range(2):
        suppress_py4j_logs()
    root = logging.getLogger()
    assert not root.filter(_record("java_gateway"))
    assert not root.filter(_record("clientserver"))
    assert root.filter(_record("merge"))
    assert not logging.getLogger("py4j.java_gateway").isEnabledFor(logging.ERROR)
