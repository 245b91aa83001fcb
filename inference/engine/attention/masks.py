"""Which keys the tokens of a prompt may see."""

from __future__ import annotations

import torch


class Masks:
    """Masks of one step on one device. Layers of the same window share theirs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._made: dict[tuple[int, int, int, int | None], torch.Tensor] = {}

    def seen(self, rows: int, keys: int, lead: int, window: int | None) -> torch.Tensor:
        """[rows, keys]: which of `keys` each of `rows` may see, the first row standing at key `lead`."""
        reach = None if window is None or keys <= window else window
        shape = (rows, keys, lead, reach)
        if shape not in self._made:
            row = torch.arange(lead, lead + rows, device=self._device).unsqueeze(1)
            distance = row - torch.arange(keys, device=self._device)
            seen = distance >= 0
            self._made[shape] = seen if reach is None else seen & (distance < reach)
        return self._made[shape]
