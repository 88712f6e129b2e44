"""A candidate: one complete Python text that defines `ModelNew`."""

import hashlib
from dataclasses import dataclass


def content_hash(text: str) -> str:
    """First 16 hex digits of the sha256 of the text: the identity of tasks and candidates."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Candidate:
    source: str
    parent: str | None = None
    """Hash of the candidate that this one revises."""

    @property
    def hash(self) -> str:
        return content_hash(self.source)
