"""The numbers of the protocol stand in three places, which must agree: ``spec.py``, ``spec.pxd``, ``PROTOCOL.md``."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

from rpcproto.wire import _tuning, spec
from rpcproto.wire.spec import ErrorCode, Flag, FrameType, HeadPart, Mechanism, Role

WIRE = Path(spec.__file__).parent
TEXT = (WIRE / "PROTOCOL.md").read_text(encoding="utf-8")
CONSTANT = re.compile(r"^    ([A-Z_]+) = (0x[0-9A-Fa-f]+|[0-9]+)$", re.MULTILINE)

RETRY_SAFE = {
    ErrorCode.OVERLOADED,
    ErrorCode.GOING_AWAY,
    ErrorCode.NO_SUCH_METHOD,
    ErrorCode.UNSUPPORTED_CODEC,
    ErrorCode.BAD_MESSAGE,
}


def table(title: str) -> list[list[str]]:
    """The rows of the table whose first column is headed ``title``, each as its cells."""
    lines = TEXT.splitlines()
    start = next(at for at, line in enumerate(lines) if re.match(rf"\| *{re.escape(title)} *\|", line))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("*") for cell in line.strip().strip("|").split("|")])
    return rows


@pytest.mark.parametrize(("module", "name"), [(spec, "spec"), (_tuning, "_tuning")])
def test_the_pxd_has_the_same_numbers(module: ModuleType, name: str) -> None:
    constants = CONSTANT.findall((WIRE / f"{name}.pxd").read_text(encoding="utf-8"))
    assert len(constants) > 10
    assert len({constant for constant, _ in constants}) == len(constants)
    for constant, value in constants:
        assert getattr(module, constant) == int(value, 0), constant


def test_the_pxd_of_tuning_is_complete() -> None:
    constants = {name for name, _ in CONSTANT.findall((WIRE / "_tuning.pxd").read_text(encoding="utf-8"))}
    assert constants == {name for name, value in vars(_tuning).items() if isinstance(value, int)}


@pytest.mark.parametrize("group", [FrameType, Flag, HeadPart])
def test_the_pxd_has_all_types_flags_and_parts(group: type[IntEnum]) -> None:
    constants = dict(CONSTANT.findall((WIRE / "spec.pxd").read_text(encoding="utf-8")))
    for member in group:
        assert int(constants[str(member.name)], 0) == member
        assert getattr(spec, str(member.name)) == member


def test_no_two_numbers_are_the_same() -> None:
    for group in (FrameType, ErrorCode, Role, Mechanism):
        assert len(group.__members__) == len(list(group))
    for flags in (Flag, HeadPart):
        assert [int(flag) for flag in flags] == [1 << bit for bit in range(len(flags))]


def test_the_text_has_every_frame_type() -> None:
    assert {row[0]: int(row[1]) for row in table("type")} == {kind.name: kind.value for kind in FrameType}


def test_the_text_has_every_flag() -> None:
    assert {row[0]: int(row[1], 0) for row in table("flag")} == {str(flag.name): flag.value for flag in Flag}


def test_the_text_has_every_part_of_a_head() -> None:
    assert {row[0]: int(row[1], 0) for row in table("part")} == {str(part.name): part.value for part in HeadPart}


def test_the_text_has_every_error_code_and_says_whether_a_retry_is_safe() -> None:
    rows = {row[1]: row for row in table("code") if row[1]}
    assert {name: int(row[0], 0) for name, row in rows.items()} == {code.name: code.value for code in ErrorCode}
    assert {ErrorCode[name] for name, row in rows.items() if row[2] == "yes"} == RETRY_SAFE


def test_connection_codes_and_call_codes_have_spaces_of_their_own() -> None:
    assert {code.value >> 8 for code in ErrorCode} == {1, 2, 3}


def test_the_text_has_the_fields_of_the_greeting() -> None:
    sizes = [sum(int(part) for part in row[1].split("+")) for row in table("field")]
    assert sum(sizes) + 8 == spec.GREETING_SIZE  # 8 are reserved
    assert f"Greeting, {spec.GREETING_SIZE} bytes" in TEXT


@pytest.mark.parametrize(
    "said",
    [
        f"{spec.INLINE_MAX:,} bytes",
        f"below {spec.MIN_FRAGMENT:,} bytes",
        f"1 to {spec.MAX_METHOD_NAME} bytes",
        f"{spec.MAX_METHOD_IDS - 1:,} and bound once",
        f"type name has at most {spec.MAX_METHOD_NAME} bytes, the text {spec.MAX_ERROR_TEXT:,}",
        f"the traceback {spec.MAX_ERROR_TRACEBACK:,}",
        f"the largest of: {spec.MIN_COST};",
        "2^31-1",
        "2^48-1",
        "AB 52 50 43",
        "0D 0A 1A 0A",
        "1 initiator, 2 acceptor",
        "0 none, 1 shared secret",
    ],
)
def test_the_text_has_the_number(said: str) -> None:
    assert said in " ".join(TEXT.split())


def test_the_numbers_themselves() -> None:
    assert (spec.CREDIT_MAX, spec.CALL_ID_MAX) == (2**31 - 1, 2**48 - 1)
    assert bytes.fromhex("AB 52 50 43 0D 0A 1A 0A") == spec.MAGIC
    assert (spec.GREETING_SIZE, spec.HEADER_SIZE) == (64, 16)
    assert _tuning.PACK_MAX + spec.HEADER_SIZE + 8 <= _tuning.SCRATCH_SIZE
    assert _tuning.HEADROOM >= spec.INLINE_MAX + spec.HEADER_SIZE
