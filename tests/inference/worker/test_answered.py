"""An answer that another worker began goes on as it would have gone on there: tokens, text, limits and draws."""

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished
from inference.contracts.prompts import TokenPrompt
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.testing.fleet import stub_fleet
from inference.testing.stub_settings import StubSettings

PROMPT = "Tell me a story about a tandem that is longer than a block of the cache."


@pytest.mark.parametrize("sampled", [{"temperature": 0.0}, {"temperature": 0.9, "seed": 5}])
@pytest.mark.parametrize("by_handoff", [False, True])
async def test_what_follows_is_what_would_have_followed(fleet, client, sampled, by_handoff):
    prefill, decode = fleet.prefill[0].http, fleet.decode[0].http
    whole = await client.answer_here(decode, PROMPT, Sampling(max_tokens=20, **sampled))
    for answered in (1, 7, 19):
        so_far = TokenPrompt(token_ids=(*PROMPT.encode(), *whole.token_ids[:answered]))
        sampling = Sampling(max_tokens=20, answered=answered, **sampled)
        rest = await (
            client.answer_by_handoff(prefill, decode, so_far, sampling)
            if by_handoff
            else client.answer_here(decode, so_far, sampling)
        )
        assert rest.token_ids == whole.token_ids[answered:]
        assert whole.text.endswith(rest.text)
        assert isinstance(rest.end, Finished)
        assert rest.end.reason is FinishReason.LENGTH
        assert rest.end.completion_tokens == 20 - answered


async def test_half_a_character_and_half_a_stop_string_are_whole_after_it(client):
    """What the first worker held back comes with the first text of the second."""
    bytes_of_a_bike = tuple(bytes([octet]) for octet in "🚲".encode())
    pieces = (b"a", *bytes_of_a_bike, b" EN", b"X", b" EN", b"D", b"never")
    async with stub_fleet(0, 1, settings=StubSettings(pieces=pieces)) as fleet:
        decode = fleet.decode[0].http
        sampling = Sampling(max_tokens=20, temperature=0.0, stop=("END",))
        whole = await client.answer_here(decode, "p", sampling)
        assert whole.text == "a🚲 ENX "
        for answered in range(1, len(whole.token_ids)):
            so_far = TokenPrompt(token_ids=(*b"p", *whole.token_ids[:answered]))
            going_on = Sampling(max_tokens=20, temperature=0.0, stop=("END",), answered=answered)
            rest = await client.answer_here(decode, so_far, going_on)
            assert "".join(delta.text for delta in whole.deltas[:answered]) + rest.text == whole.text
            assert rest.end.reason is FinishReason.STOP


@pytest.mark.parametrize(("answered", "n"), [(4, 1), (-1, 1), (2, 2), (9, 1)])
async def test_an_answer_that_can_not_be_the_end_of_the_prompt_is_refused(fleet, client, answered, n):
    with pytest.raises(TandemError) as refused:
        await client.answer_here(
            fleet.decode[0].http, TokenPrompt(token_ids=(1, 2, 3, 4)), Sampling(max_tokens=8, n=n, answered=answered)
        )
    assert refused.value.code is ErrorCode.INVALID_REQUEST
