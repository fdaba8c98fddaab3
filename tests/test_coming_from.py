"""The pages for those who come from another library: they run, print what is here, and name only what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rpcproto
from tests._tables import in_words
from tests._tree import ROOT
from tests.test_examples import printed

pytestmark = pytest.mark.tree

PAGES = sorted((ROOT / "examples").glob("from_*.py"))
MAX_LINES = 200
OTHERS = {"grpc", "zmq", "distributed", "dask", "tornado"}

PRINTED = {
    "from_dask_rpc.py": """\
rpc: 3 42
1000 calls at once: 500500 over 1 connection
data: {'a': (8000000, 1), 'bc': (8000000, 2)}
exception: ZeroDivisionError('division by zero')
refused: args[0]['x']: a value of type object cannot be sent with msgpack: convert it, or use another codec
tasks finished: 1000 sum: 332833500
in batches: True in few system calls: True
""",
    "from_grpc_aio.py": """\
unary: 39 km
server streaming: ['Bern', 'Thun', 'Spiez']
client streaming: {'trips': 3, 'km': 98}
bidirectional: Ada, is it far? Yes.
bidirectional: Ada, is it steep? Yes.
metadata: ada, who waits no longer than a minute: True {'served-by': 'node-7'}
deadline: DEADLINE_EXCEEDED Trips.wait_for_train
status NOT_FOUND: RemoteError
status INVALID_ARGUMENT: Refused
status UNIMPLEMENTED: NoSuchMethod
status INVALID_ARGUMENT: SerializationError
status UNAVAILABLE: ConnectFailed
""",
    "from_pyzmq.py": """\
REQ/REP: tea
DEALER/ROUTER: tea dinner
PUSH/PULL: [0, 1, 4, 9, 16, 25]
PUB/SUB: rain
before the restart: version 1
a call that was waiting: ConnectionLost True
after the restart: version 2
""",
}

OWNERS = {
    "rpcproto": rpcproto,
    "client": rpcproto.Client,
    "server": rpcproto.Server,
    "channel": rpcproto.Channel,
    "stream": rpcproto.Stream,
    "reply": rpcproto.Reply,
    "Limits": rpcproto.Limits,
    "Timeouts": rpcproto.Timeouts,
}
"""Of what the names are that a page writes as ``owner.name``."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def tree_of(page: Path) -> ast.Module:
    return ast.parse(page.read_text(encoding="utf-8"))


def docstring_of(page: Path) -> str:
    return ast.get_docstring(tree_of(page)) or ""


def ours(page: Path) -> str:
    """What the docstring says of rpcproto: the right column of its table, and the text below."""
    head, _, rest = docstring_of(page).partition("=\n")
    column = max(len(line) - len(line.rpartition("  ")[2]) for line in head.splitlines() if "rpcproto" in line[40:])
    table, _, text = rest.partition("\n\n")
    return "\n".join([line[column:] for line in table.splitlines()] + [text])


@each_page
def test_page_prints_what_it_should(page: Path) -> None:
    assert printed(str(page)) == PRINTED[page.name]


@each_page
def test_page_needs_no_other_library(page: Path) -> None:
    imports = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree_of(page))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imports |= {node.module or "" for node in ast.walk(tree_of(page)) if isinstance(node, ast.ImportFrom)}
    assert not imports & OTHERS


@each_page
def test_page_is_read_in_a_few_minutes(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@each_page
def test_page_names_what_there_is(page: Path) -> None:
    named = re.findall(rf"(?<![\w./:])({'|'.join(OWNERS)})\.([a-z]\w*|[A-Z]\w*)", ours(page))
    assert len(named) > 5, "the table was not found"
    assert [f"{owner}.{name}" for owner, name in named if not hasattr(OWNERS[owner], name)] == []


@each_page
def test_page_tells_the_defaults(page: Path) -> None:
    told = re.findall(r"(Limits|Timeouts)\.(\w+), (\d[\d,]*(?: (?:s|[KMG]iB))?)", ours(page))
    assert told
    assert told == [(owner, name, in_words(owner, getattr(OWNERS[owner](), name))) for owner, name, _ in told]
