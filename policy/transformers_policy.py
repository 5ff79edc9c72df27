"""A policy on transformers: works wherever torch does, batched, with a key-value cache.

`propose` queues; `collect(wait=True)` runs one batch to its end. A request's prompt and path are read once for all its
samples. Every sample draws from its own generator, so it does not depend on what else is in the batch (beyond rounding):
padding is on the left, masked, and positions count real tokens only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import log_softmax

from treewise.policy.model_folder import fingerprint, open_folder
from treewise.policy.requests import check_request
from treewise.policy.samples import Sample
from treewise.policy.sampling import Sampling
from treewise.search.types import Ids, InputError, PolicyError, Prompt, Proposal, StepGrammar, StepRequest


@dataclass(slots=True)
class _Queued:
    ticket: int
    request: StepRequest
    samples: list[Sample]


@dataclass(slots=True)
class _Row:
    """One sample in the batch and its random numbers, one for each token it may take."""

    sample: Sample
    draws: torch.Tensor
    """float64 `[max_tokens]` in [0, 1)."""
    greedy: bool
    """Takes the most likely token, whatever the temperature."""


class TransformersPolicy:
    """Proposes steps with a causal language model of transformers."""

    def __init__(
        self,
        model: str | Path,
        *,
        grammar: StepGrammar,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_batch: int = 64,
        max_model_len: int | None = None,
        device: str | None = None,
        dtype: str = "auto",
    ) -> None:
        """Load the model.

        `max_batch` is in samples, a single request may exceed it. `device` is the GPU where there is one. `dtype` is
        `auto` (float32 on a CPU, else as stored) or a torch name. Raises ModelNotFound, InputError for options out of
        range, PolicyError when the weights cannot be loaded.
        """
        self._sampling = Sampling(temperature=temperature, top_p=top_p)
        if max_batch < 1:
            raise InputError(f"max_batch is {max_batch}", "Give 1 or more")
        self._folder = open_folder(model)
        self._rules = self._folder.vocabulary.rules(grammar)
        if max_model_len is not None and not 1 < max_model_len <= self._folder.positions:
            raise InputError(f"max_model_len is {max_model_len}, the model reads {self._folder.positions}", "Give less")
        self._context = max_model_len or self._folder.positions
        self._max_batch = max_batch
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._model = _load(self._folder.path, dtype=_dtype(dtype, device=self._device), device=self._device)
        self._queue: deque[_Queued] = deque()
        self._closed = False
        self._fingerprint = fingerprint(
            "transformers",
            self._folder,
            {
                "temperature": temperature,
                "top_p": top_p,
                "dtype": str(self._model.dtype).removeprefix("torch."),
                "separators": list(grammar.separators),
                "minimum_lines": grammar.minimum_lines,
                "guard_fences": grammar.guard_fences,
                "stop_texts": list(grammar.stop_texts),
            },
        )

    @property
    def fingerprint(self) -> str:
        """Names model, weights, tokenizer, grammar and sampling settings."""
        return self._fingerprint

    @property
    def context_length(self) -> int:
        """Most tokens of prompt, path and new tokens together."""
        return self._context

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's token ids. Raises InputError when it is empty."""
        return self._folder.encode(prompt)

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        return self._folder.vocabulary.decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Queue one request. Raises ContextOverflow, InputError for fields out of range, PolicyError when closed."""
        if self._closed:
            raise PolicyError("The policy is closed", "Make a new one")
        if any(queued.ticket == ticket for queued in self._queue):
            raise InputError(f"Ticket {ticket} is already under way", "Use each ticket once")
        check_request(request, context_length=self._context, vocabulary_size=self._folder.vocabulary.size)
        samples = [Sample(self._folder.vocabulary, self._rules, request) for _ in request.seeds]
        self._queue.append(_Queued(ticket, request, samples))

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Run one batch to its end and return its proposals; without `wait` nothing is run and nothing returned."""
        if not wait or not self._queue:
            return []
        batch = [self._queue.popleft()]
        rows = len(batch[0].samples)
        while self._queue and rows + len(self._queue[0].samples) <= self._max_batch:
            batch.append(self._queue.popleft())
            rows += len(batch[-1].samples)
        try:
            self._generate(batch)
        except RuntimeError as error:  # torch's, out of memory among them
            failure = PolicyError(f"The model failed on a batch of {rows} samples: {error}", "Lower max_batch", retryable=True)
            failure.__cause__ = error
            return [Proposal(queued.ticket, error=failure) for queued in batch]
        return [
            Proposal(
                queued.ticket,
                samples=tuple(sample.steps for sample in queued.samples),
                prompt_tokens=len(queued.request.ids) * len(queued.samples),
                cached_tokens=len(queued.request.ids) * (len(queued.samples) - 1),
            )
            for queued in batch
        ]

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        self._queue = deque(queued for queued in self._queue if queued.ticket != ticket)

    def close(self) -> None:
        """Free the model."""
        self._closed = True
        self._queue.clear()
        self._model = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @torch.inference_mode()
    def _generate(self, batch: list[_Queued]) -> None:
        """Sample every request of the batch until all its samples are done."""
        rows = [
            _Row(sample, _draws(seed, queued.request.max_tokens), queued.request.greedy)
            for queued in batch
            for sample, seed in zip(queued.samples, queued.request.seeds, strict=True)
        ]
        logits, cache, mask = self._read_prompts(batch)
        owners = torch.tensor(
            [i for i, queued in enumerate(batch) for _ in queued.samples], dtype=torch.long, device=self._device
        )
        cache.batch_select_indices(owners)
        logits, mask = logits[owners], mask[owners]
        while True:
            tokens, logprobs = self._draw(logits, rows)
            going = [
                i
                for i, (row, token, logprob) in enumerate(zip(rows, tokens.tolist(), logprobs.tolist(), strict=True))
                if not row.sample.add(token, logprob)
            ]
            if not going:
                return
            if len(going) < len(rows):
                kept = torch.tensor(going, dtype=torch.long, device=self._device)
                cache.batch_select_indices(kept)
                rows, tokens, mask = [rows[i] for i in going], tokens[kept], mask[kept]
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            output = self._model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=mask.sum(1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            logits = output.logits[:, -1]

    def _read_prompts(self, batch: list[_Queued]) -> tuple[torch.Tensor, Any, torch.Tensor]:
        """Return last logits `[R, V]`, key-value cache and mask `[R, T]` of the batch's prompts and paths, padded left."""
        length = max(len(queued.request.ids) for queued in batch)
        ids = torch.zeros(len(batch), length, dtype=torch.long)
        mask = torch.zeros(len(batch), length, dtype=torch.long)
        for row, queued in enumerate(batch):
            start = length - len(queued.request.ids)
            ids[row, start:] = torch.tensor(queued.request.ids)
            mask[row, start:] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        output = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1], output.past_key_values, mask

    def _draw(self, logits: torch.Tensor, rows: list[_Row]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one token a row, int64 `[N]`, and its log-probability under the distribution drawn from, float32 `[N]`."""
        logits = logits[:, : self._folder.vocabulary.size].float()
        likeliest = logits.argmax(-1)
        if self._sampling.temperature == 0 or all(row.greedy for row in rows):
            return likeliest, log_softmax(logits, -1).gather(1, likeliest[:, None])[:, 0]
        logprobs = nucleus(log_softmax(logits / self._sampling.temperature, -1), self._sampling.top_p)
        draws = torch.stack([row.draws[len(row.sample.ids)] for row in rows]).to(self._device)
        cumulative = logprobs.double().exp().cumsum(-1)
        marks = draws[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, marks, right=True)[:, 0].clamp(max=logprobs.shape[1] - 1)
        greedy = torch.tensor([row.greedy for row in rows], device=self._device)
        if greedy.any():
            tokens = torch.where(greedy, likeliest, tokens)
            logprobs = torch.where(greedy[:, None], log_softmax(logits, -1), logprobs)
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _draws(seed: int, count: int) -> torch.Tensor:
    """Random numbers of one sample, float64 `[count]` in [0, 1): a function of the seed alone."""
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nucleus(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return log-probabilities `[N, V]` with all but the most likely tokens of joint probability `top_p` removed.

    Source: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751, section 3.1.
    """
    if top_p >= 1:
        return logprobs
    ordered, order = logprobs.sort(-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()
    dropped = (before >= top_p).scatter(1, order, before >= top_p)
    return log_softmax(logprobs.masked_fill(dropped, -torch.inf), -1)


def _load(path: Path, *, dtype: torch.dtype | str, device: torch.device) -> Any:
    """Return the model, ready to be read, without a progress bar. Raises PolicyError when the weights cannot be loaded."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
        return model.to(device).eval()
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise PolicyError(f"The weights in {str(path)!r} cannot be loaded: {error}", "Save the model anew") from error
    finally:
        if shown:
            logging.enable_progress_bar()


def _dtype(name: str, *, device: torch.device) -> torch.dtype | str:
    if name == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"dtype is {name!r}", "Give auto, float32, bfloat16 or float16")
    return dtype
