"""Mutual proof of the cluster secret at the start of a connection (challenge and response, HMAC-SHA256).

Each side signs both challenges, so an answer fits one connection only, and under its own name, so that it can't be
mirrored back. A sender that gets no proof says so before it leaves, so that both ends know of the refusal. From then on
both seal their frames with keys that come from the secret and both challenges.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from inference.contracts.auth import new_challenge, sign_challenge, verify_challenge
from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer import wire
from inference.transfer.link import Link

_CHALLENGE_BYTES = 32

H = TypeVar("H", bound=wire.Header)


async def admit_sender(link: Link, secret: str, welcome: wire.Welcome) -> None:
    """The receiver's side.

    Raises:
        TandemError: UNAUTHENTICATED when the peer is no sender of this cluster, FINGERPRINT_MISMATCH when it speaks
            another protocol version.
    """
    hello = await _expect(link, wire.Hello)
    if len(hello.challenge) != _CHALLENGE_BYTES:
        raise TandemError(ErrorCode.UNAUTHENTICATED, "the challenge has the wrong length")
    challenge = new_challenge()
    both = hello.challenge + challenge
    await link.send(wire.Challenge(answer=sign_challenge(secret, "receiver", both), challenge=challenge))
    try:
        proof = await _expect(link, wire.Proof)
    except TandemError as error:
        # Whatever code an unproven peer names, to us it is one that did not prove itself.
        raise TandemError(ErrorCode.UNAUTHENTICATED, f"the sender gave no proof: {error.message}") from error
    if not verify_challenge(secret, "sender", both, proof.answer):
        raise TandemError(ErrorCode.UNAUTHENTICATED, "the sender does not know this cluster's secret")
    _seal(link, secret, both, mine="receiver", theirs="sender")
    await link.send(welcome)


async def greet_receiver(link: Link, secret: str) -> wire.Welcome:
    """The sender's side; it proves itself only to a receiver that did so first. What the receiver is.

    Raises:
        TandemError: as `admit_sender`, or the receiver's refusal.
    """
    mine = new_challenge()
    await link.send(wire.Hello(challenge=mine))
    reply = await _expect(link, wire.Challenge)
    both = mine + reply.challenge
    if not verify_challenge(secret, "receiver", both, reply.answer):
        refusal = TandemError(ErrorCode.UNAUTHENTICATED, "the receiver does not know this cluster's secret")
        with contextlib.suppress(OSError):
            await link.send(wire.Refused(code=refusal.code, message=refusal.message))
            await link.drain()
        raise refusal
    await link.send(wire.Proof(answer=sign_challenge(secret, "sender", both)))
    _seal(link, secret, both, mine="sender", theirs="receiver")
    return await _expect(link, wire.Welcome)


def _seal(link: Link, secret: str, both: bytes, *, mine: str, theirs: str) -> None:
    link.seal(
        outgoing=sign_challenge(secret, f"frames of the {mine}", both),
        incoming=sign_challenge(secret, f"frames of the {theirs}", both),
        checksums=sign_challenge(secret, "checksums", both),
    )


async def _expect(link: Link, kind: type[H]) -> H:
    try:
        header, _ = await link.receive(max_payload=0)
    except TandemError as error:
        if error.code is ErrorCode.FINGERPRINT_MISMATCH:
            raise
        raise TandemError(ErrorCode.UNAUTHENTICATED, error.message) from error
    if isinstance(header, wire.Refused):
        raise wire.error_of(header.code, header.message)
    if not isinstance(header, kind):
        raise TandemError(ErrorCode.UNAUTHENTICATED, f"{type(header).__name__} came instead of {kind.__name__}")
    return header
