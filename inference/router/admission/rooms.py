"""The waiting rooms of a router: one for each deployment for which a request came."""

from __future__ import annotations

from collections.abc import Collection

from inference.router.admission.fair_queue import WaitingRoom


class Rooms:
    """most, longest_s, retry_after_s: of each, as in `WaitingRoom`."""

    def __init__(self, most: int, longest_s: float, retry_after_s: int) -> None:
        self._each = (most, longest_s, retry_after_s)
        self._rooms: dict[str, WaitingRoom] = {}

    def of(self, deployment: str) -> WaitingRoom:
        """Where its requests wait while all its workers are busy."""
        room = self._rooms.get(deployment)
        if room is None:
            room = self._rooms[deployment] = WaitingRoom(*self._each)
        return room

    def waiting(self, deployment: str) -> int:
        """How many of its requests wait."""
        room = self._rooms.get(deployment)
        return 0 if room is None else len(room)

    def forget_all_but(self, deployments: Collection[str], keys: Collection[str]) -> None:
        """Let go of the rooms of all other deployments, and of what all other keys had of their turns."""
        self._rooms = {name: room for name, room in self._rooms.items() if name in deployments}
        for room in self._rooms.values():
            room.forget_all_but(keys)
