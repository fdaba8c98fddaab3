"""Arguments as callers write them become arguments by position, or a TypeError that says what is wrong."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rpcproto.aio.parameters import Parameters, did_you_mean
from rpcproto.errors import ConfigurationError


def parameters_of(function: Callable[..., Any]) -> Parameters:
    return Parameters("Api.f", inspect.signature(function))


def plain(a: int, b: str = "x", c: int = ...) -> None: ...  # type: ignore[assignment]


def variadic(a: int, /, b: int = 2, *rest: int) -> None: ...


def arrays(a: Any, b: Any = np.zeros(3), c: Any = None) -> None: ...  # noqa: B008  compared with == it would fail


def nothing() -> None: ...


def single(a: int) -> None: ...


def test_counts_and_names() -> None:
    assert [(p.least, p.most, p.names) for p in map(parameters_of, (plain, variadic, arrays, nothing))] == [
        (1, 3, ("a", "b", "c")),
        (1, sys.maxsize, ("a", "b")),
        (1, 3, ("a", "b", "c")),
        (0, 0, ()),
    ]
    assert [parameters_of(variadic).positional_only(position) for position in (0, 1)] == [True, False]


def test_the_text_is_that_of_the_source() -> None:
    assert str(parameters_of(plain)) == "Api.f(a: int, b: str = 'x', c: int = ...) -> None"
    assert str(parameters_of(variadic)) == "Api.f(a: int, /, b: int = 2, *rest: int) -> None"


@pytest.mark.parametrize(
    ("function", "args", "keywords", "arranged"),
    [
        (plain, (1,), {}, (1,)),
        (plain, (), {"a": 1}, (1,)),
        (plain, (), {"b": "y", "a": 1}, (1, "y")),
        (plain, (1,), {"b": "y"}, (1, "y")),
        (plain, (1,), {"c": 3}, (1, "x", 3)),
        (plain, (1,), {"c": ...}, (1, "x", ...)),
        (variadic, (1, 2, 3, 4), {}, (1, 2, 3, 4)),
        (variadic, (1,), {"b": 5}, (1, 5)),
        (nothing, (), {}, ()),
    ],
)
def test_arguments_that_fit(function: Any, args: Any, keywords: Any, arranged: Any) -> None:
    assert parameters_of(function).arrange(args, keywords) == arranged


def test_what_is_left_out_at_the_end_is_left_out() -> None:
    assert parameters_of(arrays).arrange((), {"a": 1}) == (1,)


def test_any_default_will_do() -> None:
    first, gap, last = parameters_of(arrays).arrange((1,), {"c": 3})
    assert (first, gap.tolist(), last) == (1, [0.0, 0.0, 0.0], 3)


def unknown_default(a: int, b: int = ..., c: int = 0) -> None: ...  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("function", "args", "keywords", "text"),
    [
        (plain, (), {}, "'a' is missing"),
        (plain, (), {"b": 1}, "'a' is missing"),
        (lambda a, b: None, (), {}, "'a' and 'b' are missing"),
        (plain, (1, 2, 3, 4), {}, "takes at most 3 arguments, 4 given"),
        (single, (1, 2), {}, "takes 1 argument, 2 given"),
        (nothing, (1,), {}, "takes no arguments, 1 given"),
        (plain, (1,), {"a": 1}, "'a' is given by position and by name"),
        (plain, (1,), {"d": 1}, "there is no argument 'd'"),
        (lambda count: None, (), {"cuont": 1}, "there is no argument 'cuont'; did you mean 'count'?"),
        (variadic, (), {"a": 1}, "'a' can be given by position only"),
        (unknown_default, (1,), {"c": 1}, "'b' must be given too, since its default is known to the other side only"),
    ],
)
def test_arguments_that_do_not_fit(function: Any, args: Any, keywords: Any, text: str) -> None:
    parameters = parameters_of(function)
    with pytest.raises(TypeError) as caught:
        parameters.arrange(args, keywords)
    assert str(caught.value) == f"{parameters}: {text}"


def test_parameters_that_cannot_travel() -> None:
    def keyword_only(a: int, *, b: int = 1) -> None: ...
    def keywords(a: int, **rest: int) -> None: ...

    with pytest.raises(ConfigurationError, match=r"so b cannot be given; remove the \* before it"):
        parameters_of(keyword_only)
    with pytest.raises(ConfigurationError, match=r"so \*\*rest cannot be given; name the parameters"):
        parameters_of(keywords)


def test_did_you_mean() -> None:
    assert did_you_mean("ecoh", {"echo": 1, "other": 2}) == "; did you mean 'echo'?"
    assert did_you_mean("zzz", {"echo": 1}) == ""
