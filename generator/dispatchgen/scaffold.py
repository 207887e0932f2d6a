"""The text of files that people then own: a new project, and the module of a new kernel class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import FileSystemLoader

from dispatchgen.cache import NoCache
from dispatchgen.environment import environment_for
from dispatchgen.format import format_files
from dispatchgen.model.catalog import Backend
from dispatchgen.render import RenderedFile
from dispatchgen.schema import schemas
from dispatchgen.schema_files import FOLDER
from dispatchgen.template_set import TemplateSet

TEMPLATE = ".jinja"


def new_project(template_set: TemplateSet, package: str) -> dict[str, str]:
    """The files of a new project by their paths in it, with the schemas that its spec files name.

    Raises OSError where a file of the template set cannot be read.
    """
    made = {}
    for file in template_set.starter:
        if file.source.endswith(TEMPLATE):
            text = _rendered(template_set, file.source, {"package": package})
        else:
            text = (template_set.folder / file.source).read_text(encoding="utf-8")
        made[file.path.format(package=package)] = text
    return made | {f"spec/{FOLDER}/{name}": text for name, text in schemas(template_set).items()}


def kernel_module(template_set: TemplateSet, backend: Backend, class_name: str) -> str | None:
    """The text of a module with the kernel class of a backend; None where the template set has no template for it."""
    if template_set.kernel is None:
        return None
    text = _rendered(template_set, template_set.kernel, {"backend": backend, "class_name": class_name})
    raw = RenderedFile("kernel.py", template_set.kernel, "", text)
    formatted, _ = format_files([raw], NoCache())
    return formatted[0].text if formatted else text


def _rendered(template_set: TemplateSet, name: str, context: Mapping[str, Any]) -> str:
    environment = environment_for(FileSystemLoader(template_set.folders))
    keys = {key.name: None for key in template_set.backend_keys}
    backend = context.get("backend")
    values = {**keys, **backend.keys} if backend else keys
    return environment.get_template(name).render({**context, "keys": values})
