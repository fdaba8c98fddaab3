"""The names that modules publish exist, are listed once, and are documented. ruff checks their order (RUF022)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import rpcproto
from rpcproto import _build

FOUND = {module.name for module in pkgutil.walk_packages(rpcproto.__path__, "rpcproto.")} - {_build.SHARED}
MODULES = ["rpcproto", *sorted(FOUND)]


@pytest.mark.parametrize("name", MODULES)
def test_all(name: str) -> None:
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    assert [each for each in names if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", MODULES)
def test_public_classes_and_functions_have_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__ or name.rpartition(".")[2].startswith("_"), "says not what it is for"
    published = {each: getattr(module, each) for each in getattr(module, "__all__", [])}
    documented = {
        each: value for each, value in published.items() if inspect.isroutine(value) or inspect.isclass(value)
    }
    assert [each for each, value in documented.items() if not value.__doc__] == []
