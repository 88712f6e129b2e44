"""How a served model is reached and asked; part of a run's settings, so it never holds a key."""

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from musaagent.tools.results import Record

DEFAULT_CONTEXT = 40960
"""MusaCoder's context, for servers that do not state their own."""


TRANSPORT = frozenset(
    {"base_url", "repair_base_url", "stream", "timeout_s", "attempts", "backoff_s", "key_env"}
)
"""Fields that say how the model is reached, and nothing of what it is asked."""


class ServedSettings(Record):
    base_url: str = ""
    """The address that ends in `/v1`."""
    model: str = ""
    profile: Literal["auto", "musacoder", "general"] = "auto"
    """Which prompts; auto takes the model's name for the choice."""
    dialect: Literal["auto", "cuda", "musa"] = "auto"
    """Which language the kernels are asked for in; auto follows the target."""
    temperature: float = Field(default=0.7, ge=0)
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=32768, ge=1)
    """Longest answer, thinking included."""
    context: int | None = Field(default=None, ge=1024)
    """Context window in tokens; None asks the server."""
    stream: bool = True
    timeout_s: float = Field(default=600.0, gt=0)
    """Longest silence of the server, and longest wait for a connection's first byte."""
    attempts: int = Field(default=6, ge=1)
    """How often a request is sent where the transport fails."""
    backoff_s: float = Field(default=1.0, gt=0)
    """First wait between two tries; it doubles, with jitter, unless the server names one."""
    key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable with the key; the key itself is stored nowhere."""
    repair_base_url: str = ""
    """Of the larger model of a cascade; empty: the same server."""
    repair_model: str = ""
    """The larger model of a cascade."""
    patience: int = Field(default=2, ge=1)
    """Turns without progress before a cascade takes the larger model."""

    @field_validator("base_url", "repair_base_url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        if not value:
            return value
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must be an http:// or https:// address that ends in /v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must hold no key or query: a key comes from the environment only")
        return value.rstrip("/")

    @field_validator("key_env")
    @classmethod
    def _name_of_variable(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            # Not repeated in the message: it may be the key itself.
            raise ValueError("must be the NAME of an environment variable, not the key")
        return value

    @property
    def larger(self) -> "ServedSettings":
        """The second model of a cascade, as settings of its own."""
        address = self.repair_base_url or self.base_url
        return self.model_copy(update={"base_url": address, "model": self.repair_model})
