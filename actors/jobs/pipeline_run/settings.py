"""What runs of pipelines and connectors need to know. Read from the environment by the composition."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt

from protocols.connectors import CONNECTORS, ConnectorRegistry
from protocols.credits import Pricing


@frozen(kw_only=True)
class PipelineSettings:
    """``run_timeout_s`` ends a run as failed; the job's own limit lies a little beyond it. ``window`` bounds how far
    fetching may run ahead of writing, and so how many pages are in memory.
    """

    max_urls: int = field(default=1000, validator=gt(0))
    run_timeout_s: float = field(default=28_200.0, validator=gt(0))
    lease_ttl_s: float = field(default=360.0, validator=gt(0))
    workers: int = field(default=4, validator=gt(0))
    pricing: Pricing = field(factory=Pricing)
    retention_days: int = field(default=30, validator=ge(1))
    max_result_bytes: int = field(default=2 << 30, validator=gt(0))
    registry: ConnectorRegistry = CONNECTORS

    @property
    def window(self) -> int:
        return 2 * self.workers
