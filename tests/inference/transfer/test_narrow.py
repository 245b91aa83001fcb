import numpy as np
import pytest
import torch

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport
from inference.transfer.base import TransferSettings
from inference.transfer.narrow import check_wire_dtype, narrowed, widened
from tests.inference.transfer.rig import rig


def there_and_back(values: np.ndarray) -> np.ndarray:
    (piece,) = narrowed([values.data.cast("B")])
    assert piece.nbytes == values.nbytes // 2
    return np.frombuffer(widened(piece), np.float32)


def test_float32_is_rounded_as_torch_rounds_it_to_bfloat16():
    values = torch.randn(4096, generator=torch.Generator().manual_seed(3)) * 10 ** torch.linspace(-30, 30, 4096)
    expected = values.to(torch.bfloat16).to(torch.float32).numpy()
    assert np.array_equal(there_and_back(values.numpy()), expected)


def test_what_is_no_number_stays_what_it_is():
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    back = there_and_back(values)
    assert np.array_equal(back, values, equal_nan=True)
    assert np.array_equal(np.signbit(back[[0, 1, 3, 4]]), [False, True, False, True])


@pytest.mark.parametrize(("wire", "kv"), [("bfloat16", "bfloat16"), ("bfloat16", ""), ("float16", "float32")])
def test_nothing_else_can_be_narrowed(wire, kv):
    with pytest.raises(TandemError) as refused:
        check_wire_dtype(wire, kv)
    assert refused.value.code is ErrorCode.FINGERPRINT_MISMATCH


def test_it_is_off_unless_asked_for():
    assert TransferSettings().wire_dtype == ""
    check_wire_dtype("", "bfloat16")


async def test_a_receiver_refuses_what_it_could_not_widen():
    settings = TransferSettings(transports=(KVTransport.TCP,), wire_dtype="bfloat16")
    async with rig(settings=settings) as r:  # KV of a stub is bytes, not float32
        with pytest.raises(TandemError, match="can't travel as 'bfloat16'"):
            await r.push(r.reserve())
        assert r.free() == (0, 0)
