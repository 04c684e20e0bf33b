"""The logger that a running job gets."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's fields to ``extra``; the formatter adds the job to all lines anyway."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the line with the fields."""
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs
