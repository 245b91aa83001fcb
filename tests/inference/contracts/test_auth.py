"""Internal hops prove membership without sending the cluster secret."""

from __future__ import annotations

from inference.contracts import auth


def test_a_derived_token_shows_neither_the_secret_nor_other_tokens() -> None:
    token = auth.derive_token("secret", auth.PURPOSE_WORKER_HTTP)
    assert "secret" not in token
    assert token != auth.derive_token("secret", auth.PURPOSE_METRICS)
    assert token != auth.derive_token("other", auth.PURPOSE_WORKER_HTTP)


def test_only_the_right_bearer_passes() -> None:
    header = auth.bearer("secret", auth.PURPOSE_WORKER_HTTP)
    assert auth.is_bearer(header, "secret", auth.PURPOSE_WORKER_HTTP)
    for wrong in (None, "", "Bearer ", "Bearer secret", header + "0", header.lower()):
        assert not auth.is_bearer(wrong, "secret", auth.PURPOSE_WORKER_HTTP)


def test_a_header_that_is_no_text_is_only_a_wrong_one() -> None:
    sent = b"Bearer \xff\xfe".decode(errors="surrogateescape")  # as HTTP libraries hand it over
    assert not auth.is_bearer(sent, "secret", auth.PURPOSE_WORKER_HTTP)
    assert len(auth.key_digest(sent)) == 64


def test_an_answer_to_a_challenge_serves_one_side_and_one_challenge() -> None:
    challenge = auth.new_challenge()
    answer = auth.sign_challenge("secret", "sender", challenge)
    assert auth.verify_challenge("secret", "sender", challenge, answer)
    assert not auth.verify_challenge("secret", "receiver", challenge, answer)
    assert not auth.verify_challenge("secret", "sender", auth.new_challenge(), answer)
    assert not auth.verify_challenge("other", "sender", challenge, answer)


def test_serving_keys_differ_and_only_their_digest_is_kept() -> None:
    first, second = auth.new_serving_key(), auth.new_serving_key()
    assert first != second
    assert first.startswith("sk-tandem-")
    assert auth.key_digest(first) != auth.key_digest(second)
    assert len(auth.key_digest(first)) == 64


def test_a_hello_is_proved_by_the_node_s_key_for_exactly_its_body() -> None:
    header = auth.node_authorization("key", b'{"hostname":"a"}')
    assert auth.is_node_authorization(header, "key", b'{"hostname":"a"}')
    for wrong in (None, "", "Node ", header + "0", header.removeprefix("Node ")):
        assert not auth.is_node_authorization(wrong, "key", b'{"hostname":"a"}')
    assert not auth.is_node_authorization(header, "other", b'{"hostname":"a"}')
    assert not auth.is_node_authorization(header, "key", b'{"hostname":"b"}')
    assert not auth.is_node_authorization(header, "key", b"\xff")
