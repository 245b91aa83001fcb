"""What to change for one deployment, as a pure function of what is wanted and what is seen.

A plan depends on the present state alone (level-triggered), so a lost or doubled trigger changes nothing, and a
satisfied deployment gets an empty plan. `apply` turns a plan into rows.

- A worker fills a place of its pool while it is wanted (desired = run) and not on a silent node. One that FAILED keeps
  its place: an operator restarts it; replacing it for ever would only fail for ever. One that is STOPPED and still
  wanted keeps it too: its agent went down in order, and starts it again when it is back.
- Too few: drains are cancelled first (F09), then workers change over from a pool that has too many (flips), then more
  start on devices that are free now, so that the fleet is never over-committed, not even for a moment (F22). One on
  a silent node is replaced elsewhere, but its device stays taken until the node says what runs there (F10).
- Too many: what serves least goes first. A worker that has come up is drained, any other is stopped at once.
- To be replaced (it runs another revision, or its node is being drained): it serves until others do in its place. Where
  no device is free for these, it leaves first; but never so many that a pool has fewer ready workers than its minimum,
  and never the last serving pair, if there is any other way.
- A cordoned node keeps what it runs. What is on a retired one is gone.
- A drain with nothing left to finish becomes a stop; its deadline is kept by the agent, on a clock that only goes
  forward. A worker that is gone and not wanted is removed.
"""

from __future__ import annotations

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.explaining import explain
from controlplane.pools.planning.flips import flip
from controlplane.pools.planning.placing import Placing, place
from controlplane.pools.planning.replacing import Replacing
from controlplane.pools.planning.revisions import wanted_by_revision
from controlplane.pools.planning.scaling import Standing, standing_of
from controlplane.pools.planning.scene import Scene
from controlplane.pools.planning.snapshot import Snapshot
from controlplane.pools.planning.waiting import Outlook, outlook_of


def plan(snapshot: Snapshot) -> Plan:
    """What to change so that every pool gets its replicas, or a deleted deployment loses its workers."""
    scene = Scene(snapshot)
    wanted = wanted_by_revision(snapshot)
    standings = [standing_of(pool, wanted[pool.pool_id], scene) for pool in snapshot.pools]
    flips = flip(standings, scene)
    for standing in standings:
        for worker in standing.surplus:
            standing.dismiss(worker, standing.shape)
    replacing = Replacing(standings, scene)
    replacing.dismiss_replaced()
    placing = place(standings, scene)
    outlook = _make_room(standings, scene, placing, replacing)
    wait, refused = explain(standings, scene, replacing, outlook)
    return Plan(
        start=placing.start,
        flip=tuple(flips),
        undrain=tuple(move for standing in standings for move in standing.undrain),
        drain=tuple(move for standing in standings for move in standing.drain),
        stop=tuple(move for standing in standings for move in standing.stop),
        remove=tuple(move for standing in standings for move in standing.remove),
        wait=wait,
        refused=refused,
    )


def _make_room(standings: list[Standing], scene: Scene, placing: Placing, replacing: Replacing) -> Outlook:
    """Dismiss stand-ins until no rule asks for more: one that goes may be the reason why another has to, or need not.
    What can be expected in the end."""
    while True:
        outlook = outlook_of(standings, scene, placing)
        if not (replacing.dismiss_replaced() or replacing.release(outlook) or replacing.release_last_pair(outlook)):
            return outlook
