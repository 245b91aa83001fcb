"""One run: rounds of faults under load, each followed by a calm in which everything has to come right."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.api import Answer
from tests.chaos.faults import Faults
from tests.chaos.intents import Intents
from tests.chaos.streams import Ending, Load, Stream
from tests.chaos.watch import (
    Watch,
    busy_workers,
    converge,
    differences,
    failed_by,
    nodes_in_use,
    open_operations,
    size_of,
    stale_metrics,
)
from tests.chaos.world import DEPLOYMENT, MODELS, World

#: Operations end by their own deadline of 150 s at the latest.
OPERATIONS_END_S = 200.0
CONVERGE_S = 60.0
#: A request may meet a worker that is dead for so long before everybody knows.
_KNOWN_AFTER_S = 15.0
_SHOWN = 12
_ENDED = ("succeeded", "failed", "superseded", "cancelled")


@dataclass
class Storm:
    """wrong: everything that should not have been."""

    world: World
    seed: int
    round_s: float = 50.0
    wrong: list[str] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """At least one round; a new one begins as long as there is time."""
        end = time.monotonic() + seconds
        self._deploy()
        watch = Watch(self.world)
        load = Load(router_url=self.world.router_url, key=self.world.serving_key, model=DEPLOYMENT, seed=self.seed)
        load.start()
        intents = Intents(self.world.api, self.seed)
        faults = Faults(self.world, self.seed)
        number = 0
        while number == 0 or (time.monotonic() < end and not self.wrong):
            number += 1
            self._say(f"round {number}")
            intents.go()
            faults.storm(min(self.round_s, max(15.0, end - time.monotonic())))
            intents.rest()
            self._calm()
        intents.stop()
        load.stop()
        self._judge_streams(load, faults)
        self._judge_operations(intents)
        self._after_the_load()
        self._delete()
        watch.stop()
        self.wrong += [*watch.wrong, *faults.troubles, *intents.troubles, *self.world.api.faults]
        answered = sum(intent.answer is not None for intent in intents.sent)
        self._say(
            f"{sum(load.count.values())} streams ({', '.join(f'{count} {end}' for end, count in load.count.items())}), "
            f"{answered} of {len(intents.sent)} intents answered, {len(faults.told)} faults, {watch.looks} looks, "
            f"{len(watch.seen)} workers"
        )

    # -- begin and end

    def _deploy(self) -> None:
        wanted = {"name": DEPLOYMENT, "model": MODELS[0], "prefill": 1, "decode": 2}
        self._succeeds("deploy", self.world.api.write("POST", "/deployments", wanted))
        for pool in self.world.api.get(f"/deployments/{DEPLOYMENT}")["pools"]:
            # Operators don't take the last one of a pool away: so no request is refused because of them.
            self.world.api.write("PATCH", f"/pools/{pool['id']}", {"generation": pool["generation"], "min_replicas": 1})
        self._expect(converge(self.world, CONVERGE_S, differences))

    def _delete(self) -> None:
        self._succeeds("delete", self.world.api.write("DELETE", f"/deployments/{DEPLOYMENT}", {}))
        self._expect(converge(self.world, 30, lambda world: [f"pid {p.pid} is left" for p in world.engine_processes()]))

    def _after_the_load(self) -> None:
        self._expect(converge(self.world, 20, busy_workers))
        self._expect(converge(self.world, 10, stale_metrics))

    # -- calm

    def _calm(self) -> None:
        """The faults are over: what was asked for ends, everything is as wanted, and what is asked for now happens."""
        began = time.monotonic()
        self._say("calm")
        self._uncordon()
        self._expect(converge(self.world, OPERATIONS_END_S, open_operations))
        self._expect(converge(self.world, CONVERGE_S, differences))
        self._say(f"as wanted after {time.monotonic() - began:.0f} s")
        for role, replicas in (("decode", 3), ("prefill", 2), ("decode", 2)):
            pools = self.world.api.get(f"/deployments/{DEPLOYMENT}")["pools"]
            pool = next(pool for pool in pools if pool["role"] == role)
            body = {"generation": pool["generation"], "replicas": replicas, "reason": f"calm: {role} {replicas}"}
            answer = self.world.api.write("PATCH", f"/pools/{pool['id']}", body)
            if answer.status == 202:
                self._succeeds(f"resize {role} to {replicas}", answer)
            if size_of(self.world)[role] != (replicas, replicas):
                self.wrong.append(f"{role} was resized to {replicas} and is {size_of(self.world)[role]}: {answer}")
        self._expect(converge(self.world, CONVERGE_S, differences))

    def _uncordon(self) -> None:
        for node_id in nodes_in_use(self.world):
            answer = self.world.api.write("POST", f"/nodes/{node_id}/uncordon", {"reason": "calm"})
            if answer.status >= 400:
                self.wrong.append(f"a node could not be uncordoned: {answer}")

    def _succeeds(self, what: str, answer: Answer, within_s: float = 60.0) -> None:
        operation = (answer.body or {}).get("operation")
        if operation is None:
            self.wrong.append(f"{what} was refused: {answer}")
            return

        def not_yet(world: World) -> list[str]:
            now = world.api.get(f"/operations/{operation['id']}")
            return [] if now["state"] == "succeeded" else [f"{what} is {now['state']}: {now['outcome']} {now['steps']}"]

        self._expect(converge(self.world, within_s, not_yet))

    # -- judging

    def _judge_streams(self, load: Load, faults: Faults) -> None:
        """Only those may break whose own worker or router was killed; and never silently."""
        blamed = failed_by(self.world)
        unexcused = [each for each in load.broken if not self._excused(each, blamed[each.name], faults)]
        if len(unexcused) > _SHOWN:
            self.wrong.append(f"{len(unexcused)} streams should not have broken; the first of them:")
        for stream in unexcused[:_SHOWN]:
            about = f"{stream.name} of {stream.tokens} tokens, {stream.ended - stream.started:.1f} s"
            self.wrong.append(
                f"stream {about}, ended {stream.ending} at {self._clock(stream.ended)}: {stream.detail}; "
                f"blamed: {blamed[stream.name]}"
            )

    def _excused(self, stream: Stream, blamed: list[set[str]], faults: Faults) -> bool:
        def struck(kind: str) -> set[str]:
            since = stream.started - _KNOWN_AFTER_S
            return {each.who for each in faults.incidents if each.kind == kind and since <= each.at <= stream.ended}

        match stream.ending:
            case Ending.CUT:
                return bool(struck("router"))
            case Ending.TOLD:
                return bool(blamed) and all(each & struck("worker") for each in blamed)
            case Ending.REFUSED:
                # No excuse is a silent node: routers go on with its workers when they have no others.
                return bool(struck("worker") or struck("router"))
            case _:
                return False

    def _judge_operations(self, intents: Intents) -> None:
        """All have ended, say how, and are what was asked for: once, however often it was sent."""
        operations = self.world.api.items("/operations")
        for operation in operations:
            self._judge(operation)
        for intent in intents.sent:
            found = [each for each in operations if each["reason"] == intent.reason and each["retry_of"] is None]
            made = (intent.answer.body or {}).get("operation") if intent.answer is not None else None
            if len(found) > 1:
                self.wrong.append(f"{intent.what} made {len(found)} operations")
            if made is not None and made["id"] not in {each["id"] for each in operations}:
                self.wrong.append(f"{intent.what} was answered with an operation that is not there: {made['title']}")
            if intent.answer is not None and intent.answer.status in (401, 403, 405, 415, 429):
                self.wrong.append(f"{intent.what} was answered {intent.answer}")

    def _judge(self, operation: dict[str, Any]) -> None:
        shown = f"operation {operation['title']!r} ({operation['id']})"
        if operation["state"] not in _ENDED or not operation["outcome"] or not operation["finished_at"]:
            self.wrong.append(f"{shown} is {operation['state']}, outcome {operation['outcome']!r}")
        if any(step["state"] == "running" for step in operation["steps"]):
            self.wrong.append(f"{shown} has ended and has steps that run")
        if operation["state"] == "succeeded" and operation["progress"] != 1.0:
            self.wrong.append(f"{shown} has succeeded and is {operation['progress']:.0%} through")

    def _expect(self, left: list[str]) -> None:
        for each in left:
            self._say(f"!! {each}")
        self.wrong += left

    def _clock(self, at: float) -> str:
        return time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - at)))

    def _say(self, text: str) -> None:
        print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)
