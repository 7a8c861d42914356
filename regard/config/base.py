"""Base class of all groups of settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, lt=1)]


class Settings(BaseModel):
    """A frozen group of settings; unknown keys raise."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
