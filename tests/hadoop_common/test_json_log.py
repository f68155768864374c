from __future__ import annotations

import json
import logging
import logging.config
import sys
import tomllib
from pathlib import Path

from hadoop_common.json_log import JsonFormatter

LOGGING = Path(__file__).parents[2] / "config" / "logging.toml"


def record(message: str, *args: object, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("some.logger", logging.WARNING, __file__, 1, message, args, exc_info)


def test_a_record_is_one_line() -> None:
    line = JsonFormatter().format(record("%s said\n%s", "ä", '"'))
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["message"] == 'ä said\n"'
    assert (fields["level"], fields["logger"]) == ("WARNING", "some.logger")
    assert fields["time"].endswith("+00:00")


def test_exceptions_are_in_it() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        line = JsonFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "ValueError: wrong" in json.loads(line)["exception"]


def test_the_example_file_can_be_used() -> None:
    settings = tomllib.loads(LOGGING.read_text("utf-8"))
    configurator = logging.config.DictConfigurator(settings)
    formatter = configurator.configure_formatter(configurator.config["formatters"]["json"])
    assert isinstance(formatter, JsonFormatter)
    assert settings["version"] == 1
    assert settings["disable_existing_loggers"] is False
