#!/usr/bin/env bash
# Sets up the virtual environment for `make`: PYTHON (found when empty), VENV and READY come from the Makefile.
set -euo pipefail

say() { echo "overnight: $*" >&2; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ "$READY" -nt pyproject.toml ] && [ "$READY" -nt constraints.txt ]; then
    exit 0 # another make was faster
fi
if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    # The shell may know a name that does not run (pyenv's shims), so each is tried.
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.11 python3 python3.13 python3.12; fi
    for candidate in "$@"; do
        if new_enough "$candidate"; then python=$candidate && break; fi
    done
    if [ -z "${python:-}" ]; then
        say "Python 3.11 or newer is needed; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1 || true)."
        say "Install it, or name it: make demo PYTHON=/path/to/python3.11"
        exit 1
    fi
    say "making $VENV with $("$python" --version)"
    if ! "$python" -m venv --clear "$VENV" >&2; then
        say "$python cannot make a virtual environment; on Debian and Ubuntu install python3-venv"
        exit 1
    fi
fi
say "installing the packages into $VENV"
[ -e "$READY" ] || say "PyTorch is large (several GB on Linux, with CUDA): the first time takes minutes"
"$VENV/bin/python" -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]' |
    awk '/^ *Downloading/ { sub(/^ */, ""); sub(/-(cp|py)[0-9].*\.whl/, ""); print "  " $0; fflush() }
         /^Installing collected/ { print "  installing ..."; fflush() }' >&2
touch "$READY"
say "$VENV is ready"
