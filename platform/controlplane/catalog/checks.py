"""Whether what is wanted of a model can be right."""

from __future__ import annotations

import re

from controlplane.core.errors import Invalid
from inference.contracts.models import ModelShape
from inference.planning.model.faults import shape_fault

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_PATH_MAX = 500
_LICENCE_MAX = 100
_DESCRIPTION_MAX = 1000


def name_checked(name: str) -> str:
    """
    Raises:
        Invalid: it is no name of a model.
    """
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"A model's name has 1 to 100 letters, digits, dots, dashes or underscores and begins with a letter or "
            f"digit; {name[:120]!r} does not.",
            field="name",
        )
    return name


def path_checked(path: str) -> str:
    """
    Raises:
        Invalid: no node would take it.
    """
    path = path.strip()
    if not path:
        raise Invalid("A model needs the path of its directory on the nodes, or a hub id.", field="path")
    if len(path) > _PATH_MAX or not path.isprintable():
        raise Invalid(f"A path has at most {_PATH_MAX} printable characters.", field="path")
    if path.startswith("-"):
        raise Invalid("A path does not begin with '-'.", field="path")
    return path


def revision_checked(revision: str) -> str:
    """
    Raises:
        Invalid: it is no name of a revision.
    """
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise Invalid(
            f"A revision is a branch, tag or commit of the hub, with at most 100 letters, digits and . _ / -; "
            f"{revision[:120]!r} is not.",
            field="revision",
        )
    return revision


def licence_checked(licence: str) -> str:
    """
    Raises:
        Invalid: too long, or not printable.
    """
    licence = licence.strip()
    if len(licence) > _LICENCE_MAX or (licence and not licence.isprintable()):
        raise Invalid(f"A licence has at most {_LICENCE_MAX} printable characters.", field="licence")
    return licence


def description_checked(description: str) -> str:
    """
    Raises:
        Invalid: too long.
    """
    description = description.strip()
    if len(description) > _DESCRIPTION_MAX:
        raise Invalid(
            f"A description has at most {_DESCRIPTION_MAX} characters; this one has {len(description)}.",
            field="description",
        )
    return description


def shape_checked(shape: ModelShape) -> ModelShape:
    """
    Raises:
        Invalid: no model has such a shape.
    """
    if fault := shape_fault(shape):
        raise Invalid(fault, field="shape")
    return shape
