"""A stub engine that makes embeddings too: equal texts have equal vectors, unlike texts unlike ones."""

from __future__ import annotations

import math

import numpy as np
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.interface import TokenIds
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings


class StubEmbedder(StubEngine):
    """Counts each token into one of so many places as `StubSettings.embedding_size` says; vectors have length 1."""

    def embed(self, token_ids: TokenIds) -> np.ndarray:
        if not all(0 <= token_id < self.info.vocab_size for token_id in token_ids):
            raise TandemError(
                ErrorCode.INVALID_REQUEST, f"token ids must lie in 0..{self.info.vocab_size - 1}", "input"
            )
        vector = np.zeros(self.settings.embedding_size or 1, dtype=np.float32)
        for token_id in token_ids:
            vector[xxhash.xxh3_64_intdigest(b"%d" % token_id) % len(vector)] += 1
        return vector / math.sqrt(float(vector @ vector))


def stub_engine_of(settings: StubSettings, model_name: str) -> StubEngine:
    """The stub that `settings` describe."""
    return (StubEngine if settings.embedding_size is None else StubEmbedder)(settings, model_name=model_name)
