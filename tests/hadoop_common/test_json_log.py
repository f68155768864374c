from __future__ import annotations

import json
import logging
import logging.config
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


def test_record_contains_the_exception() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        line = JsonFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "ValueError: wrong" in json.loads(line)["exception"]


def extra(**fields: object) -> dict[str, object]:
    logger = logging.getLogger("extra")
    made = logger.makeRecord("extra", logging.INFO, __file__, 1, "saved", (), None, extra=fields)
    return json.loads(JsonFormatter().format(made))


def test_record_contains_the_fields_of_the_caller() -> None:
    fields = extra(txid=7, phase="save", target="nn1:9870", seconds=1.5, ok=True, none=None, each=[1, (2, 3)])
    assert fields["message"] == "saved"
    assert {name: fields[name] for name in ("txid", "phase", "target", "seconds", "ok", "none", "each")} == {
        **{"txid": 7, "phase": "save", "target": "nn1:9870", "seconds": 1.5, "ok": True, "none": None},
        "each": [1, [2, 3]],
    }


def test_values_without_a_json_form_become_text() -> None:
    fields = extra(path=Path("/x"), ratio=float("nan"), by={3: {4}})
    assert (fields["path"], fields["ratio"], fields["by"]) == ("/x", "nan", {"3": "{4}"})


def test_recursive_value_is_logged() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert extra(endless=endless)["endless"]


def test_standard_fields_keep_their_names() -> None:
    fields = extra(time="noon", level=3)
    assert (fields["time_"], fields["level_"], fields["level"]) == ("noon", 3, "INFO")


def test_earlier_formatters_do_not_affect_the_record() -> None:
    made = record("said")
    logging.Formatter("%(asctime)s %(message)s").format(made)
    assert set(json.loads(JsonFormatter().format(made))) == {"time", "level", "logger", "thread", "message"}


def test_example_configuration_is_valid() -> None:
    settings = tomllib.loads(LOGGING.read_text("utf-8"))
    configurator = logging.config.DictConfigurator(settings)
    formatter = configurator.configure_formatter(configurator.config["formatters"]["json"])
    assert isinstance(formatter, JsonFormatter)
    assert settings["version"] == 1
    assert settings["disable_existing_loggers"] is False


@pytest.mark.parametrize("config", ["", str(LOGGING)])
def test_malformed_headers_of_peers_are_not_logged(config: str) -> None:
    """Otherwise, the library would log these faults at each poll, with a traceback and the whole URL."""
    program = """
import logging, sys
from pathlib import Path
from hadoop_common.cli.service_logging import set_up_logging
set_up_logging(False, Path(sys.argv[1]) if sys.argv[1] else None)
logging.getLogger("urllib3.connection").warning("Failed to parse headers")
logging.getLogger("urllib3.connectionpool").warning("is logged")
"""
    ended = subprocess.run([sys.executable, "-c", program, config], capture_output=True, text=True, check=True)
    assert "is logged" in ended.stderr
    assert "Failed to parse headers" not in ended.stderr
