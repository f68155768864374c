import logging

import pytest

from pipeline.session import suppress_py4j_logs


def _record(module: str) -> logging.LogRecord:
    return logging.LogRecord("root", logging.ERROR, f"/lib/{module}.py", 1, "said", (), None)


@pytest.mark.usefixtures("loggers")
def test_modules_of_py4j_do_not_speak_as_the_root_logger_once_asked() -> None:
    for _ in range(2):
        suppress_py4j_logs()
    root = logging.getLogger()
    assert not root.filter(_record("java_gateway"))
    assert not root.filter(_record("clientserver"))
    assert root.filter(_record("merge"))
    assert not logging.getLogger("py4j.java_gateway").isEnabledFor(logging.ERROR)
