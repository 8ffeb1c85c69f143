# Shell functions shared by .ci/venv and .ci/run. POSIX sh.

# Ends the script with a message.
fail() {
    printf '\n%s\n' "$*" >&2
    exit 1
}

# Whether $1 is a Python that really runs (a version manager's stand-in may be on PATH and refuse) and is new enough.
runs() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' </dev/null >/dev/null 2>&1
}

# Prints pip's setting $2, from wherever pip takes it; nothing if there is none. $1: a Python that has pip.
pip_setting() {
    "$1" -m pip config list 2>/dev/null | sed -nE "s/^(:env:|global|install)\.$2='(.*)'\$/\2/p" | head -n 1
}

# uv does not read pip's settings. Behind a mirror or a company's proxy it is pip that knows the way: hand that on.
# $1: a Python that has pip.
follow_pip() {
    if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
        UV_DEFAULT_INDEX=$(pip_setting "$1" index-url)
        # An empty value would count as an index.
        if [ -n "$UV_DEFAULT_INDEX" ]; then export UV_DEFAULT_INDEX; else unset UV_DEFAULT_INDEX; fi
    fi
    if [ -z "${SSL_CERT_FILE:-}" ]; then
        SSL_CERT_FILE=$(pip_setting "$1" cert)
        if [ -n "$SSL_CERT_FILE" ]; then export SSL_CERT_FILE; else unset SSL_CERT_FILE; fi
    fi
}

# Prints the path of a Python $1 (such as 3.12) that really runs: from PATH, otherwise from pyenv. Nothing if there is none.
find_minor() {
    for candidate in "python$1" "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/"$1".*/bin/"python$1"; do
        if runs "$candidate"; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

# Whether there is a browser for the tests of the HTML report; tests/browser/conftest.py looks for the same names.
has_browser() {
    [ -n "${TOOLGRADE_BROWSER:-}" ] && return
    for candidate in chromium chromium-browser google-chrome chrome; do
        command -v "$candidate" >/dev/null && return
    done
    return 1
}
