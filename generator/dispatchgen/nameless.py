"""Things that a template made text of although they have none: methods that are not called, and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatchgen._place import place
from dispatchgen.digests import template_path, template_sources
from dispatchgen.findings import Finding, error

if TYPE_CHECKING:
    from dispatchgen.plan import PlannedFile

_NAMELESS = re.compile(r"<bound method [\w.]{1,200} of | at 0x[0-9a-fA-F]{1,16}>")
"""How Python shows something that has no text of its own: with its address, which is another one in every run."""
_BEFORE = re.compile(r"(?:<[\w. -]+|[\w.<>]+)\Z")
"""What stands before such an address, within `_LONGEST` characters: a search that looks ahead from every character of a
long word takes for ever."""
_LONGEST = 200


def nameless(path: str, text: str, planned: PlannedFile, folders: Sequence[Path]) -> Iterator[Finding]:
    """A finding for each thing that a template made text of and that has none.

    Words of the catalog and of a template may look so.
    """
    for found in _NAMELESS.finditer(text):
        thing = found[0]
        if thing.startswith(" at "):
            before = _BEFORE.search(text, max(0, found.start() - _LONGEST), found.start())
            if before is None:
                continue
            thing = before[0] + thing
        written = b"".join(template_sources(folders, planned.template).values()).decode(errors="replace")
        if thing not in written and not _says(planned.context, thing):
            shown = re.sub(r" of $", ">", re.sub(r"0x[0-9a-fA-F]+", "0x…", thing))
            line = text.count("\n", 0, found.start()) + 1
            yield error(
                "DG701",
                f"line {line} of {path} would show {shown}, which is no text and may differ from run to run",
                place(template_path(folders, planned.template)),
                fix="call the method: `name.upper()`, not `name.upper`",
            )


def _says(value: Any, text: str) -> bool:
    """Whether the text stands in a value that a template sees."""
    if isinstance(value, str):
        return text in value
    if isinstance(value, Mapping):
        return any(_says(each, text) for each in value.values())
    if isinstance(value, tuple | list):
        return any(_says(each, text) for each in value)
    return is_dataclass(value) and any(_says(getattr(value, each.name), text) for each in fields(value))
