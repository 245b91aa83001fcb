"""Whether engine settings can be right, before a worker is started with them."""

from __future__ import annotations

from controlplane.core.errors import Invalid
from inference.contracts.bounds import settings_fault
from inference.contracts.specs import EngineSettings


def settings_check(settings: EngineSettings) -> None:
    """
    Raises:
        Invalid: a value that no engine can run with; `field` is "settings.<name>".
    """
    fault = settings_fault(settings)
    if fault is not None:
        raise Invalid(fault.message, code="invalid_setting", field=f"settings.{fault.field}")
