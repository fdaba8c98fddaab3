"""Error codes to exceptions, by a table that no peer can reach into."""

from __future__ import annotations

import pickle

import pytest

from rpcproto import errors
from rpcproto.connection.failures import failure
from rpcproto.wire.spec import ErrorCode
from tests.wire.test_spec import RETRY_SAFE

CALL_CODES = [code for code in ErrorCode if code.value >= 0x200]


@pytest.mark.parametrize("code", CALL_CODES)
def test_each_code_has_its_class_and_text(code: ErrorCode) -> None:
    error = failure(code, "", "because", "", "Echo.echo", "tcp://peer:1")
    expected = {
        ErrorCode.OVERLOADED: errors.Overloaded,
        ErrorCode.GOING_AWAY: errors.GoingAway,
        ErrorCode.NO_SUCH_METHOD: errors.NoSuchMethod,
        ErrorCode.CANCELLED: errors.CallCancelled,
        ErrorCode.DEADLINE_EXCEEDED: errors.DeadlineExceeded,
        ErrorCode.UNSUPPORTED_CODEC: errors.Refused,
        ErrorCode.BAD_MESSAGE: errors.Refused,
        ErrorCode.MESSAGE_TOO_LARGE: errors.MessageTooLarge,
        ErrorCode.NOT_PERMITTED: errors.NotPermitted,
        ErrorCode.UNENCODABLE_RESULT: errors.RemoteError,
        ErrorCode.HANDLER_RAISED: errors.RemoteError,
    }[code]
    assert type(error) is expected
    assert "because" in str(error)


@pytest.mark.parametrize("code", CALL_CODES)
def test_only_what_is_safe_to_retry_says_so(code: ErrorCode) -> None:
    error = failure(code, "", "because", "", "Echo.echo", "tcp://peer:1")
    assert isinstance(error, errors.Refused) == (code in RETRY_SAFE)


@pytest.mark.parametrize("code", [0, 1, 0x0101, 0x0200, 0x02FF, 0x0302, 0xFFFF])
def test_unknown_codes_are_remote_errors_that_keep_the_code(code: int) -> None:
    error = failure(code, "app.Full", "no room", "tb", "Echo.echo", "tcp://peer:1")
    assert isinstance(error, errors.RemoteError)
    assert (error.code, error.type_name, error.text, error.traceback) == (code, "app.Full", "no room", "tb")
    assert str(error) == "app.Full: no room"


@pytest.mark.parametrize("name", ["KeyError", "builtins.SystemExit", "rpcproto.errors.Overloaded", "os.system"])
def test_row_65_a_class_named_by_the_peer_is_only_text(name: str) -> None:
    error = failure(ErrorCode.HANDLER_RAISED, name, "x", "", "m", "p")
    assert type(error) is errors.RemoteError
    assert error.type_name == name


@pytest.mark.parametrize("code", CALL_CODES)
def test_all_name_the_call_and_can_be_pickled(code: ErrorCode) -> None:
    error = failure(code, "E", "because", "", "Echo.echo", "tcp://peer:1")
    if isinstance(error, errors.CallFailed):
        assert (error.method, error.peer) == ("Echo.echo", "tcp://peer:1")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
