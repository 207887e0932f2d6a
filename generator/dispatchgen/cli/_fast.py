"""`dispatchgen check --fast`: hashes against hashes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dispatchgen.cache import Cache, user_cache
from dispatchgen.check import fast
from dispatchgen.check.verdicts import FileVerdict, by_hashes
from dispatchgen.cli._settings import spec_key
from dispatchgen.disk import look
from dispatchgen.findings import Finding, in_order

if TYPE_CHECKING:
    from dispatchgen.cli._settings import Settings


def verdicts(settings: Settings) -> tuple[fast.Expected | None, tuple[FileVerdict, ...], tuple[Finding, ...]]:
    """What was expected of the package, and the verdict about each of its files; nothing of it where errors forbid.

    The spec is parsed only where it was never seen as it is now.
    """
    expected, findings = _expected(settings, user_cache(os.environ))
    if expected is None:
        return None, (), findings
    disk = look(settings.out, expected.package, expected.files)
    folders = (*reversed(settings.template_overlays), settings.templates)
    now = fast.manifest(expected, folders, settings.selection, disk.manifest)
    return expected, by_hashes(now, disk), in_order((*findings, *disk.findings))


def _expected(settings: Settings, cache: Cache) -> tuple[fast.Expected | None, tuple[Finding, ...]]:
    key = spec_key(settings)
    known = cache.get(key) if key else None
    if known is not None:
        found = fast.expected(known)
        return found, found.findings
    made, findings = _made(settings)
    if made is not None and key is not None and key == spec_key(settings):  # else it was edited meanwhile
        cache.put(key, str(made))
    return made, findings


def _made(settings: Settings) -> tuple[fast.Expected | None, tuple[Finding, ...]]:
    from dispatchgen.cli._settings import read
    from dispatchgen.plan import plan

    inputs, findings = read(settings)
    if inputs is None:
        return None, findings
    planned = plan(inputs.catalog, inputs.template_set, inputs.build)
    files = {file.path: (file.template, file.digest) for file in planned.files}
    return fast.Expected(inputs.catalog.package, inputs.build.flags, files, findings), findings
