"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "THREAT_MODEL.md",
    *sorted((ROOT / "docs" / "adr").glob("*.md")),
]
#: A path in a document may begin at the top, in the tests, at the source root, or in the control plane.
BEGINNINGS = (ROOT, ROOT / "tests", ROOT / "platform", ROOT / "platform" / "controlplane")
#: Made by running something.
MADE = ("build/", "data/")

_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.py|\.ts|\.md|\.yml|\.txt|\.toml))`|\]\(([\w./-]+)\)")
_VERB = re.compile(r"`make ([a-z-]+)`")


def paths_in(document: Path) -> list[str]:
    found = [code or link for code, link in _PATH.findall(document.read_text())]
    return [path for path in found if not path.startswith(MADE) and path != "__init__.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    missing = [path for path in paths_in(document) if not any((root / path).exists() for root in BEGINNINGS)]
    assert missing == []


def test_every_make_verb_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {verb for document in (*DOCUMENTS, ROOT / "README.md") for verb in _VERB.findall(document.read_text())}
    assert named
    assert named <= targets
