"""From a catalog, a template set and a build to the files of a package: pure, and the start of every command."""

from dispatchgen.plan.files import Plan, PlannedFile, plan

__all__ = ["Plan", "PlannedFile", "plan"]
