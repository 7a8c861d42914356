"""Base class of all groups of settings."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """A frozen group of settings; unknown keys raise."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Architecture(Settings):
    """The settings of one architecture, with its paper."""

    title: ClassVar[str]
    paper: ClassVar[str]
    published: ClassVar[str]

    kind: str
