"""A pytest plugin for redis-py's own suite: leaves out what the skip list names, and lets its cache run.

    VARVE_SKIPS=file: lines `pattern | reason`; a pattern is a test's id below tests/, `*` stands for anything,
    and an id's parameters (`[single]`) may be left out
    an entry that matches no test ends the run with an error, so the list cannot outlive its reasons;
    VARVE_SKIPS_PART=1 says that only a part of the tests is there

redis-py uses its client-side cache only with servers that say 7.4 or later, though all that it needs came with 6.0;
here that bound is 7.0, in the library and in its tests of the cache. Everything else runs as it is.
"""

import os
import re

import pytest
import redis.connection

CACHE_TESTS = "tests/test_cache.py"
CACHE_FLOOR = "Redis version required >= 7.4.0"


def read(path):
    """The entries: a compiled pattern, the text it was made of, the reason."""
    entries = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) != 2 or len(parts[1]) < 8:
                raise pytest.UsageError(f"{path}:{number}: not 'pattern | reason'")
            pattern = ".*".join(re.escape(piece) for piece in parts[0].split("*"))
            entries.append((re.compile(pattern), parts[0], parts[1]))
    return entries


def allow_cache(item):
    for node in item.listchain():
        if isinstance(node, (pytest.Class, pytest.Function)):
            node.own_markers = [mark for mark in node.own_markers if mark.kwargs.get("reason") != CACHE_FLOOR]


def pytest_configure():
    redis.connection.CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"


def pytest_collection_modifyitems(items):
    path = os.environ.get("VARVE_SKIPS")
    entries = read(path) if path else []
    unused = {text for _, text, _ in entries}
    for item in items:
        if item.nodeid.startswith(CACHE_TESTS):
            allow_cache(item)
        whole = item.nodeid.removeprefix("tests/")
        names = (whole, whole.split("[")[0])
        for pattern, text, reason in entries:
            if any(pattern.fullmatch(name) for name in names):
                unused.discard(text)
                item.add_marker(pytest.mark.skip(reason=reason))
                break
    if unused and not os.environ.get("VARVE_SKIPS_PART"):
        raise pytest.UsageError("no test matches these skips: " + ", ".join(sorted(unused)))
