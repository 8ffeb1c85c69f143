"""What holds for every test: no network, and the same random examples in every run.

`adapters/conftest.py` runs this file too, so that the adapters' tests live under the same rules.
"""

import gc
import ipaddress
import os
import sys
from pathlib import Path

from hypothesis import Phase, settings

# The events by which the interpreter announces that a socket is about to talk. The first kind carries a socket and an
# address, the second a host to look up.
ADDRESS_EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg"}
LOOKUP_EVENTS = {"socket.getaddrinfo", "socket.gethostbyname"}

# Names of this machine; any other would be looked up on the network.
LOCAL_NAMES = {"", "localhost", "ip6-localhost", "ip6-loopback"}


class NetworkBlockedError(RuntimeError):
    """A test tried to reach another machine. Not an `OSError`, so that no retry or fallback swallows it."""


def is_local(host: object) -> bool:
    """Whether a host is this machine: a loopback address, a name of this machine, or no host at all."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if not isinstance(host, str):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def refuse_network(event: str, args: tuple[object, ...]) -> None:
    """Raise if a socket is about to leave this machine; as an audit hook it covers every library."""
    if event in LOOKUP_EVENTS:
        host = args[0]
    elif event in ADDRESS_EVENTS and isinstance(args[1], tuple):  # anything else is the path of a Unix socket
        host = args[1][0]
    else:
        return
    if not is_local(host):
        raise NetworkBlockedError(
            f"{event} to {host!r}: tests reach no network. Use a scripted model, or a server on 127.0.0.1."
        )


sys.addaudithook(refuse_network)

# Servers on this machine speak HTTP without TLS, but each HTTP client reads all certificates of the machine when it is
# created, which takes longer than most tests. In a folder it would look for them only when it needs one.
os.environ.pop("SSL_CERT_FILE", None)
for _name in ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT", "CIRCLE_SHA1", "GIT_COMMIT"):
    os.environ.pop(_name, None)  # reports name the commit of CI
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent / "no certificates")

# All tests and frameworks together are more than a million objects, which the garbage collector need not look through
# again and again: neither while they are imported nor afterwards.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what collecting the tests has created out of all garbage collections to come."""
    gc.freeze()
    gc.enable()


settings.register_profile("few", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("ci", deadline=None, max_examples=100, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=2000, print_blob=True)
# For .ci/mutants.py, which asks only whether a test fails: the smallest failing example is not searched for.
settings.register_profile(
    "mutants", deadline=None, max_examples=100, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Programs and suites of DeepEval's users, which tests run apart.
collect_ignore_glob = ["compat/deepeval/*"]
