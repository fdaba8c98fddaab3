# make help lists the targets. Needs Python 3.11 or later with its headers, a C compiler, and nothing else:
# what is used beyond that goes into a virtual environment beside this file.
#
#   PYTHON=...   the Python to use (default: the first of python3, python3.14 ... python3.11 that is new enough)
#   VENV=...     where its environment is (default .venv)
#   ARGS=...     more arguments for pytest or for `rpcproto bench`
#   PURE_ARGS=.. those for pytest on the pure wheel (default: ARGS)
#   RPCPROTO_PURE=1, RPCPROTO_LOOP=asyncio|uvloop   which build and which loop the tests run on

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=
PURE_ARGS ?= $(ARGS)

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet --quiet
SOURCES := $(sort $(shell find rpcproto -name '*.py' -o -name '*.pyx' -o -name '*.pxd'))
PURE := $(filter-out 0,$(RPCPROTO_PURE))
BUILT := $(if $(PURE),,$(VENV)/.built)
TOOLS := $(if $(PURE),,tools)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help bench test test-all test-checked test-wheel dist build clean tools gone

help:
	@echo "make bench         build rpcproto and measure it on this machine, beside its peers"
	@echo "make test          build rpcproto and run all tests once"
	@echo "make test-all      the same for every Python found, compiled and pure, on asyncio and uvloop"
	@echo "make test-checked  the tests with compiled modules that raise where C arithmetic overflows"
	@echo "make dist          into dist/: a source distribution, a wheel for this Python, a wheel for all others"
	@echo "make test-wheel    the same, installed into empty environments and tested away from this tree"
	@echo "make build         compile in place, for developing"
	@echo "make clean         remove everything that was built; the environments (.venv*) stay"
	@echo
	@echo "Settings: PYTHON=python3.12  ARGS='-k name'  RPCPROTO_PURE=1 (no compiled modules)  RPCPROTO_LOOP=asyncio"

bench: $(VENV)/.cli $(BUILT)
	$(VENV)/bin/rpcproto bench $(ARGS)

test: $(VENV)/.test $(BUILT)
	$(PY) -m pytest $(ARGS)

# The modules are removed at the end, since nothing tells them from the usual ones.
test-checked: $(VENV)/.test
	@echo "Compiling with checks of C arithmetic"
	@rm -f $(VENV)/.built
	@RPCPROTO_PURE= RPCPROTO_CHECKS=1 $(PY) setup.py --quiet build_ext --inplace --force
	@$(PY) -m pytest $(ARGS); status=$$?; find rpcproto -name '*.so' -delete; exit $$status

test-all:
	@.ci/matrix $(ARGS)

# Both wheels are made from the source distribution. (What an old egg-info lists would be put into it.)
dist: $(VENV)-dist/.made
	@echo "Building dist/"
	@rm -rf dist rpcproto.egg-info
	@RPCPROTO_PURE= $(VENV)-dist/bin/python -m build --outdir dist >$(VENV)-dist/log 2>&1 || { cat $(VENV)-dist/log; exit 1; }
	@RPCPROTO_PURE=1 $(VENV)-dist/bin/python -m pip --quiet --quiet wheel --no-deps --wheel-dir dist dist/*.tar.gz
	@ls dist

test-wheel: $(VENV)/.test dist
	@$(VENV)-dist/bin/twine check --strict dist/*
	@RPCPROTO_PURE=1 RPCPROTO_DIST="$(CURDIR)/dist" $(PY) -m pytest tests/test_packaging.py
	@.ci/wheel $(PYTHON) dist/*-cp*.whl $(ARGS)
	@.ci/wheel $(PYTHON) dist/*-py3-none-any.whl $(PURE_ARGS)

build: $(VENV)/.test $(VENV)/.built

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .venv*/.built
	find rpcproto tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
	find rpcproto -name '*.so' -delete

# Says at once, in one sentence each, what setup.py would only find out at its end.
define CHECK
import os, shlex, shutil, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
if sys.version_info < (3, 11):
    sys.exit("rpcproto needs Python 3.11 or later; this is %s. Say make PYTHON=... to use another." % version)
try:
    import ensurepip, venv
except ImportError:
    sys.exit("Python %s lacks its venv module (Debian, Ubuntu: apt install python%s-venv)." % (version, version))
if "tools" in sys.argv:
    pure = " RPCPROTO_PURE=1 make ... does without compiled modules."
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        sys.exit("No C compiler: %r was not found (Debian, Ubuntu: apt install gcc)." % compiler + pure)
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        sys.exit("Python %s lacks its C headers (Debian, Ubuntu: apt install python%s-dev)." % (version, version) + pure)
endef
export CHECK

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "rpcproto needs Python 3.11 or later, and none was found. Say make PYTHON=... to name one."; exit 1; }
	@$(PYTHON) -c "$$CHECK" $(TOOLS)
	@echo "Making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Building and checking distributions has an environment of its own: what it needs is nobody else's business.
$(VENV)-dist/.made: $(VENV)/.made
	@$(PYTHON) -c "$$CHECK" tools
	@echo "Making $(VENV)-dist"
	@$(PYTHON) -m venv $(VENV)-dist
	@$(VENV)-dist/bin/python -m pip --disable-pip-version-check --quiet --quiet install build twine
	@touch $@

# The package is installed as a link to this directory, without compiled modules; these are built in place below.
$(VENV)/.cli: $(VENV)/.made pyproject.toml
	@echo "Installing what rpcproto needs into $(VENV)"
	@$(PIP) install "setuptools>=77" "Cython>=3.3"
	@RPCPROTO_PURE=1 $(PIP) install --no-build-isolation -e ".[cli]"
	@touch $@

$(VENV)/.test: $(VENV)/.cli
	@echo "Installing what the tests need into $(VENV)"
	@RPCPROTO_PURE=1 $(PIP) install --no-build-isolation -e ".[dev]"
	@touch $@

# The stamp lists the sources, since a file that is gone is newer than nothing, and has the time of the build's start.
$(VENV)/.built: $(VENV)/.cli setup.py $(SOURCES) $(if $(filter-out $(SOURCES),$(shell cat $(VENV)/.built 2>/dev/null)),gone)
	@echo "Compiling"
	@echo $(SOURCES) >$@.new
	@rm -rf $$(test setup.py -nt $@ && echo build/cython build/lib.* build/temp.*)
	@RPCPROTO_PURE= $(PY) setup.py --quiet build_ext --inplace
	@mv $@.new $@

gone:
