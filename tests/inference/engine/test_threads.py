from __future__ import annotations

import threading

import pytest
import torch

from inference.engine.threads import in_passing_thread, one_thread


def test_work_is_done_in_a_thread_that_has_ended_when_it_is_over() -> None:
    thread = in_passing_thread(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_goes_wrong_there_goes_wrong_here() -> None:
    def fail() -> None:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        in_passing_thread(fail)


def test_other_threads_of_torch_rest_only_for_the_context() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_number_of_threads_is_each_threads_own() -> None:
    """What the engine relies on when a sender copies KV beside it."""
    torch.set_num_threads(1)
    with_two = threading.Thread(target=torch.set_num_threads, args=(2,))
    with_two.start()
    with_two.join()
    assert torch.get_num_threads() == 1
