"""What a partner did with one graph: a record for reports, and the warning where it could not take all of it."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter

from triptych.errors import BackendFallbackError, BackendFallbackWarning


@dataclasses.dataclass
class PartnerStage:
    """One graph that a partner compiled, as far as it could.

    partner: name of the backend. role: "forward", "backward" or "inference". graph: index of the captured graph it
    belongs to. subgraphs: number of pieces the partner compiled, over all sizes. operations: number of operators in
    them. executions: how often the partner ran a piece. fallbacks: operator -> number, run by torch's own kernels.
    reasons: operator -> why the partner cannot take it.
    """

    partner: str
    role: str
    graph: int
    subgraphs: int = 0
    operations: int = 0
    executions: int = 0
    fallbacks: Counter[str] = dataclasses.field(default_factory=Counter)
    reasons: dict[str, str] = dataclasses.field(default_factory=dict)

    def fell_back(self, refused: list[tuple[str, str]], policy: str) -> None:
        """Notes operators (name, reason) that run as torch's own. policy: "warn", "raise" or "ignore"."""
        if not refused:
            return
        self.fallbacks.update(name for name, _ in refused)
        self.reasons.update(dict(refused))
        text = f"{self.partner}: {len(refused)} operations of a {self.role} graph run as torch's own kernels: "
        counted = Counter(refused)
        text += "; ".join(f"{name} x{count} ({reason})" for (name, reason), count in counted.items())
        if policy == "raise":
            raise BackendFallbackError(text)
        if policy == "warn":
            warnings.warn(text, BackendFallbackWarning, stacklevel=2)

    def __str__(self) -> str:
        text = f"{self.partner}, graph {self.graph} {self.role}: {self.operations} operations in {self.subgraphs} parts"
        text += f", executed {self.executions} times"
        if self.fallbacks:
            text += ", in torch: " + ", ".join(f"{name} x{count}" for name, count in self.fallbacks.items())
        return text
