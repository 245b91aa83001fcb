from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.sampling import Sampling
from inference.engine.interface import KVHandle
from inference.engine.sampling.chooser import Chooser
from inference.engine.scheduler import Chunk, Scheduler
from inference.engine.sequence import Sequence
from inference.engine.text_stream import TextStream
from tests.inference.engine.recorder import Numbers, Recorder


def sequence(prompt: int, computed: int = 0, priority: int = 0) -> Sequence:
    sampling = Sampling(max_tokens=5)
    made = Sequence(
        handle=KVHandle(handle_id=0, capacity=1000),
        token_ids=list(range(prompt)),
        chooser=Chooser(sampling, range(prompt)),
        sink=Recorder(),
        text=TextStream(str, Numbers(), sampling),
        prompt_length=prompt,
        computed=computed,
        priority=priority,
    )
    if computed == prompt:
        made.token_ids.append(0)
    return made


def scheduler(*sequences: Sequence, max_running: int = 8, chunk_tokens: int = 10) -> Scheduler:
    made = Scheduler(max_running, chunk_tokens)
    for each in sequences:
        made.add(each)
    return made


def advance(chunks: list[Chunk]) -> None:
    """What the loop does after a step."""
    for chunk in chunks:
        chunk.sequence.computed = chunk.end
        if chunk.end == len(chunk.sequence.token_ids):
            chunk.sequence.token_ids.append(0)


def test_nothing_to_do_is_an_empty_plan() -> None:
    assert scheduler().plan() == []


def test_answers_come_first_and_every_one_gets_its_token() -> None:
    prompt, one, two = sequence(4), sequence(3, computed=3), sequence(7, computed=7)
    assert scheduler(prompt, one, two).plan() == [Chunk(one, 3, 4), Chunk(two, 7, 8), Chunk(prompt, 0, 4)]


def test_a_long_prompt_is_read_in_chunks_while_answers_go_on() -> None:
    prompt, running = sequence(25), sequence(3, computed=3)
    plans = scheduler(prompt, running)
    spans = []
    for _ in range(3):
        chunks = plans.plan()
        assert chunks[0].sequence is running
        spans.append((chunks[1].start, chunks[1].end, chunks[1].samples))
        advance(chunks)
    assert spans == [(0, 10, False), (10, 20, False), (20, 25, True)]


def test_prompts_share_the_budget_in_order_of_arrival() -> None:
    first, second, third = sequence(4), sequence(9), sequence(5)
    assert scheduler(first, second, third).plan() == [Chunk(first, 0, 4), Chunk(second, 0, 6)]


def test_without_chunking_prompts_are_read_whole() -> None:
    first, second = sequence(4), sequence(900)
    plans = scheduler(first, second, chunk_tokens=0)
    chunks = plans.plan()
    assert chunks == [Chunk(first, 0, 4)]
    advance(chunks)
    assert plans.plan() == [Chunk(first, 4, 5), Chunk(second, 0, 900)]


def test_whole_prompts_are_read_together_while_they_are_short() -> None:
    prompts = [sequence(length) for length in (200, 300, 12, 1, 5)]
    plans = scheduler(*prompts, chunk_tokens=0)
    assert [chunk.sequence for chunk in plans.plan()] == prompts[:3]


def test_the_more_urgent_prompt_is_read_first() -> None:
    early, late = sequence(30), sequence(30, priority=-1)
    plans = scheduler(early)
    advance(plans.plan())
    plans.add(late)
    assert plans.plan() == [Chunk(late, 0, 10)]
    assert (plans.running, early.computed) == ([early, late], 10)


def test_a_less_urgent_answer_pauses_and_loses_nothing() -> None:
    answer, urgent = sequence(3, computed=3), sequence(5, priority=-1)
    plans = scheduler(answer, max_running=1)
    advance(plans.plan())
    before = list(answer.token_ids)
    plans.add(urgent)
    assert plans.plan() == [Chunk(urgent, 0, 5)]
    assert list(plans.waiting) == [answer]
    plans.remove(urgent)
    assert plans.plan() == [Chunk(answer, 4, 5)]
    assert answer.token_ids == before


def test_a_paused_answer_goes_on_before_those_that_came_later() -> None:
    answer, urgent, late = sequence(3, computed=3), sequence(5, priority=-1), sequence(4)
    plans = scheduler(answer, max_running=1)
    plans.plan()
    plans.add(late)
    plans.add(urgent)
    plans.plan()
    assert plans.waiting == [answer, late]


def test_equals_do_not_make_way_for_each_other() -> None:
    running, waiting = sequence(3, computed=3), sequence(5)
    plans = scheduler(running, waiting, max_running=1)
    for _ in range(3):
        assert [chunk.sequence for chunk in plans.plan()] == [running]


def test_beside_answers_only_so_much_is_read_as_the_target_allows() -> None:
    plans = Scheduler(max_running=8, chunk_tokens=100, itl_target_s=0.1)
    prompt = sequence(10_000)
    plans.add(prompt)
    for _ in range(3):
        chunks = plans.plan()
        assert chunks == [Chunk(prompt, prompt.computed, prompt.computed + 100)]
        plans.measured(chunks, 0.2)
        advance(chunks)
    plans.add(sequence(3, computed=3))
    assert [chunk.end - chunk.start for chunk in plans.plan()] == [1, 50]


def test_no_more_than_max_running_are_taken_out_of_the_queue() -> None:
    first, second = sequence(4), sequence(4)
    plans = scheduler(first, second, max_running=1)
    assert [chunk.sequence for chunk in plans.plan()] == [first]
    assert list(plans.waiting) == [second]
    plans.remove(first)
    assert [chunk.sequence for chunk in plans.plan()] == [second]


def test_a_removed_request_is_forgotten_wherever_it_is() -> None:
    running, waiting = sequence(4), sequence(4)
    plans = scheduler(running, waiting, max_running=1)
    plans.plan()
    for each in (running, waiting, running):
        plans.remove(each)
    assert plans.plan() == []


def test_a_prompt_of_one_token_is_read_before_it_is_answered() -> None:
    short = sequence(1)
    chunks = scheduler(short).plan()
    assert chunks == [Chunk(short, 0, 1)]
    assert chunks[0].samples


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(-1, 1)), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(1, 4),
)
def test_every_prompt_is_read_once_and_none_starves(prompts, chunk_tokens, max_running) -> None:
    sequences = [sequence(length, priority=priority) for length, priority in prompts]
    plans = scheduler(*sequences, max_running=max_running, chunk_tokens=chunk_tokens)
    finished: list[Sequence] = []
    for _ in range(sum(length for length, _ in prompts) + 5 * len(prompts) + 1):
        chunks = plans.plan()
        read = sum(chunk.end - chunk.start for chunk in chunks if chunk.sequence.reading)
        assert chunk_tokens == 0 or read <= chunk_tokens
        assert all(chunk.start == chunk.sequence.computed for chunk in chunks)
        assert {c.sequence for c in chunks} >= {s for s in plans.running if not s.reading}
        advance(chunks)
        for each in [s for s in plans.running if len(s.token_ids) >= s.prompt_length + 5]:
            plans.remove(each)
            finished.append(each)
    assert len(finished) == len(sequences)
    if max_running == 1:
        assert finished == sorted(sequences, key=lambda each: each.priority)
