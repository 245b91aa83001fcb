"""A model path -> a model ready to run, or a plain sentence on why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine import gate
from inference.engine.attention.seam import ATTENTION
from inference.engine.kv_cache import KVGeometry
from inference.engine.packed_linear import Packing, pack_linears
from inference.engine.probe import DtypeChoice, choose_dtype
from inference.engine.same_input import linear_calls
from inference.engine.self_check import Reference, reference_of

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model"]

#: Ends of a turn in common chat templates. Base configurations often name only the end of a text as end of sequence.
_TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """directory: where its files are. eos_ids: tokens that end an answer. context_length: None when it knows none.
    packing: what became of its linear layers. dtype_reason: why it is `dtype`. geometry: of its keys and values.
    reference: what it computed before."""

    model: Any
    tokenizer: Any
    directory: Path
    dtype: torch.dtype
    eos_ids: frozenset[int]
    context_length: int | None
    packing: Packing
    dtype_reason: str
    geometry: KVGeometry
    reference: Reference

    @property
    def config(self) -> Any:
        return self.model.config


def load(model_path: str, dtype_name: str, device: torch.device, revision: str = "") -> LoadedModel:
    """Load a local directory or a hub id.

    dtype_name: as in `EngineSettings.dtype`. revision: of a hub id; empty takes the hub's default.

    Raises:
        TandemError(INVALID_REQUEST): the path is unknown, is no model, or a model that the gate refuses: starting
            again would not help.
        ConnectionError: the model hub could not be reached.
    """
    transformers_logging.disable_progress_bar()
    _check_dtype(dtype_name)
    directory = _directory(model_path, revision)
    config = _config(directory)
    gate.check_config(config, _model_class(config))
    if not any(directory.glob("*.safetensors")):
        raise _no_model(directory, "it has no .safetensors file (pickled weights are not read)")
    chosen = _dtype(dtype_name, device, config)
    model = _model(directory, chosen.dtype).to(device).eval()
    tokenizer = _tokenizer(directory)
    with torch.inference_mode():
        with linear_calls(model) as calls:
            geometry = gate.probe_geometry(model, device)
        reference = reference_of(model, device)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        directory=directory,
        dtype=chosen.dtype,
        dtype_reason=chosen.reason,
        eos_ids=_eos_ids(model, tokenizer),
        context_length=getattr(config, "max_position_embeddings", None),
        geometry=geometry,
        reference=reference,
        packing=pack_linears(model, calls.groups()) if device.type == "cpu" else Packing(0, None, "only done on CPUs"),
    )


def _check_dtype(name: str) -> None:
    if name != "auto" and name not in _DTYPES:
        raise TandemError(
            ErrorCode.INVALID_REQUEST, f"dtype {name!r} is not one of auto, {', '.join(_DTYPES)}", "dtype"
        )


def _dtype(name: str, device: torch.device, config: Any) -> DtypeChoice:
    if name != "auto":
        return DtypeChoice(_DTYPES[name], "it was set")
    if device.type != "cpu":
        return DtypeChoice(torch.bfloat16, "half the memory, and what GPUs are made for")
    return choose_dtype(config.dtype)


def _directory(model_path: str, revision: str) -> Path:
    path = Path(model_path).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise _no_model(path, "it is a file, not a directory")
    try:
        return Path(snapshot_download(model_path, revision=revision or None, allow_patterns=_HUB_FILES))
    except HFValidationError as error:
        raise _no_model(path, "there is no such directory") from error
    except RepositoryNotFoundError as error:
        raise _no_model(path, "there is no such directory, and the hub shows no such model") from error
    except RevisionNotFoundError as error:
        raise _no_model(path, f"the hub has no revision {revision!r} of it") from error
    except OSError as error:
        raise ConnectionError(
            f"{model_path} is no directory here, and the model hub can't be reached to look for it there: {error}"
        ) from error


def _config(directory: Path) -> Any:
    if not (directory / "config.json").is_file():
        raise _no_model(directory, "it has no config.json")
    try:
        return AutoConfig.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_model(directory, f"its config.json can't be read: {error}") from error


def _model_class(config: Any) -> Any:
    try:
        return AutoModelForCausalLM._model_mapping[type(config)]
    except KeyError as error:
        raise gate.refuse(f"{config.model_type} is no causal language model") from error


def _model(directory: Path, dtype: torch.dtype) -> Any:
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=dtype,
            attn_implementation=ATTENTION,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # else transformers raises what can't be told from running out of memory
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise _no_model(directory, f"its weights can't be read: {error}") from error
    if absent := sorted(report["missing_keys"]):
        raise _no_model(directory, f"its weights lack {len(absent)} parameters, such as {absent[0]}")
    if unlike := sorted(name for name, *_ in report["mismatched_keys"]):
        raise _no_model(directory, f"{len(unlike)} of its weights do not fit its config.json, such as {unlike[0]}")
    return model


def _tokenizer(directory: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_model(directory, f"its tokenizer can't be read: {error}") from error


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids named as end of sequence by the generation configuration, the configuration or the tokenizer, and the ends
    of a turn that the chat template writes."""
    named: set[int | None] = set()
    for source in (model.generation_config, model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        named |= set(ids) if isinstance(ids, list | tuple) else {ids}
    template = tokenizer.chat_template if isinstance(tokenizer.chat_template, str) else ""
    vocabulary = tokenizer.get_vocab()
    named |= {vocabulary[end] for end in _TURN_ENDS if end in template and end in vocabulary}
    return frozenset(i for i in named if i is not None)


def _no_model(path: Path, reason: str) -> TandemError:
    return TandemError(ErrorCode.INVALID_REQUEST, f"{path} is no model: {reason}", "model_path")
