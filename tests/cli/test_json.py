from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest

from rpcproto.cli._json import dumps, parse_argument, pretty, to_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1.5, 1.5),
        ("text", "text"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (b"\x00\x01\x02", {"$bytes": "AAEC"}),
        (bytearray(b"\x00\x01\x02"), {"$bytes": "AAEC"}),
        (memoryview(b"\x00\x01\x02"), {"$bytes": "AAEC"}),
        ((1, (2, b"")), [1, [2, {"$bytes": ""}]]),
        ({1: "a", (1, 2): "b", b"k": "c"}, {"1": "a", "[1, 2]": "b", '{"$bytes": "aw=="}': "c"}),
        (np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.float32("nan"), "NaN"),
        (memoryview(np.zeros((1, 2), "u1")), {"$bytes": "AAA="}),
        (dt.date(2030, 1, 2), "2030-01-02"),
    ],
)
def test_every_value_has_a_json_form(value, expected):
    assert to_json(value) == expected
    assert json.loads(dumps(value)) == expected
    assert json.loads(pretty(value)) == expected


def test_pretty_escapes_what_a_terminal_would_act_on():
    assert pretty("\x1b[2J \x9b ü") == '"\\u001b[2J \\u009b ü"'


def test_what_fits_stays_on_one_line():
    assert pretty({"a": [1, 2]}) == '{"a": [1, 2]}'
    assert pretty(list(range(50))).startswith("[\n  0,\n  1,\n")


def test_bytes_in_arguments():
    assert parse_argument('[{"$bytes": "AAEC"}, {"$bytes": "", "x": 1}]') == [
        b"\x00\x01\x02",
        {"$bytes": "", "x": 1},
    ]


@pytest.mark.parametrize("text", ['{"$bytes": 5}', '{"$bytes": "?"}', '{"$bytes": "AAE"}'])
def test_wrong_base64_is_told(text):
    with pytest.raises(ValueError, match=r"\$bytes must hold base64 text"):
        parse_argument(text)
