"""Train the embedded Countdown policy: a Llama-architecture model of about 1.4M parameters on random solutions.

Run (the shipped weights; figures and wall time are in `training.json` beside them):
    python -m treewise.training.pretrain policy/embedded/countdown

Steps are a fixed number, so a run is reproduced by its seed up to floating-point order. A checkpoint is written every
`checkpoint_every` steps and picked up by the next call with the same arguments. Optimiser: Muon for the matrices,
AdamW for embeddings and norms. Muon is written out here because torch's orthogonalises in bfloat16, which took 1.7 s a
step on a CPU without bfloat16 units where float32 takes 0.05 s.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from treewise.training.countdown_corpus import BOS, EOS, PAD, VOCABULARY, random_solutions, token_rows

COUNTS = (3, 4, 5, 6)


@dataclass(frozen=True)
class Pretraining:
    """What decides the weights."""

    hidden: int = 160
    """Model width, a multiple of the head size 32."""
    layers: int = 4
    """Transformer blocks."""
    inner: int = 448
    """Width of the feed-forward part."""
    steps: int = 4000
    """Optimiser steps."""
    tokens: int = 4096
    """Tokens a step, prompts included."""
    rate: float = 0.015
    """Peak learning rate of Muon."""
    embedding_rate: float = 0.003
    """Peak learning rate of AdamW."""
    warmup: int = 100
    """Steps of linear warm-up."""
    decay: float = 0.35
    """Last share of the steps, over which the rates fall linearly to 0; in (0, 1]."""
    broad: float = 0.05
    """Share of batches with numbers to 100 and targets to 200 in place of 25 and 10 to 100."""
    seed: int = 0
    """Seed of weights and problems."""


class Muon:
    """Momentum with an orthogonalised update, for float32 matrices.

    Source: Jordan 2024, https://kellerjordan.github.io/posts/muon/ (Nesterov momentum, quintic Newton-Schulz, 5 rounds).
    """

    def __init__(self, matrices: list[torch.nn.Parameter], *, momentum: float = 0.95, decay: float = 0.01) -> None:
        self.momentum, self.decay = momentum, decay
        self.groups: dict[tuple[int, ...], list[torch.nn.Parameter]] = {}
        for matrix in matrices:
            self.groups.setdefault(tuple(matrix.shape), []).append(matrix)
        self.averages = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every matrix by `rate` times its orthogonalised momentum and clear the gradients."""
        for shape, group in self.groups.items():
            gradients = torch.stack([p.grad for p in group if p.grad is not None])
            average = self.averages[shape].mul_(self.momentum).add_(gradients)
            update = orthogonalise(gradients + self.momentum * average)
            scale = rate * max(1.0, shape[0] / shape[1]) ** 0.5
            for matrix, change in zip(group, update, strict=True):
                matrix.mul_(1 - rate * self.decay).sub_(change, alpha=scale)
                matrix.grad = None


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """Return matrices `[K, M, N]` with singular values pushed to about 1 (quintic Newton-Schulz)."""
    tall = matrices.size(-2) > matrices.size(-1)
    x: torch.Tensor = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a word-level tokenizer: one token a number, sign or word; newline is a token of its own."""
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(" ", "removed")])
    core.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(" \n ", "\n"),
            decoders.Replace(" \n", "\n"),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<pad>",
        clean_up_tokenization_spaces=False,
        model_max_length=128,
    )


def build_model(spec: Pretraining) -> LlamaForCausalLM:
    """Return an untrained model in float32."""
    torch.manual_seed(spec.seed)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=spec.hidden,
        intermediate_size=spec.inner,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.hidden // 32,
        num_key_value_heads=spec.hidden // 32,
        max_position_embeddings=128,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0},
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # 1.5 times as fast as SDPA here on the CPU
    return model


def batch(spec: Pretraining, step: int) -> tuple[torch.Tensor, int]:
    """Return token ids int64 `[B, T]` of optimiser step `step` and their prompt length; a function of seed and step alone."""
    rng = np.random.default_rng((spec.seed, step))
    count = COUNTS[step % len(COUNTS)]
    broad = rng.random() < spec.broad
    rows: list[np.ndarray] = []
    have, need, prompt = 0, 1, 0
    while have < need:
        solutions = random_solutions(
            rng, rows=1024, count=count, largest=100 if broad else 25, targets=(1, 200) if broad else (10, 100)
        )
        ids, prompt = token_rows(solutions)
        need = spec.tokens // ids.shape[1]
        rows.append(ids)
        have += len(ids)
    return torch.from_numpy(np.concatenate(rows)[:need]), prompt


def rate_at(spec: Pretraining, step: int) -> float:
    """Share of the peak rate at `step`, in [0, 1]."""
    return min(1.0, (step + 1) / spec.warmup, (spec.steps - step) / (spec.decay * spec.steps))


def solution_loss(model: LlamaForCausalLM, ids: torch.Tensor, prompt: int) -> torch.Tensor:
    """Mean cross-entropy in nats over the tokens after the prompt, scalar."""
    hidden = model.model(input_ids=ids[:, :-1]).last_hidden_state[:, prompt - 1 :]
    logits = model.lm_head(hidden)
    return cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), ids[:, prompt:].reshape(-1))


def train(spec: Pretraining, folder: Path, *, checkpoint_every: int = 250) -> None:
    """Train to the end, or go on from the checkpoint in `folder`, and save a Hugging Face folder there."""
    folder.mkdir(parents=True, exist_ok=True)
    model = build_model(spec)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=spec.embedding_rate, betas=(0.9, 0.98), weight_decay=0.0)
    start, seconds, log = 0, 0.0, []
    state_file = folder / "checkpoint.pt"
    if state_file.exists():
        state = torch.load(state_file, weights_only=True)
        if state["spec"] != asdict(spec):
            raise ValueError(f"{state_file} was made with other settings: {state['spec']}; remove it or use its settings")
        model.load_state_dict(state["model"])
        muon.averages = state["muon"]
        adam.load_state_dict(state["adam"])
        start, seconds, log = state["step"], state["seconds"], state["log"]
    began = time.perf_counter() - seconds
    for step in range(start, spec.steps):
        share = rate_at(spec, step)
        adam.param_groups[0]["lr"] = spec.embedding_rate * share
        loss = solution_loss(model, *batch(spec, step))
        loss.backward()
        muon.step(spec.rate * share)
        adam.step()
        adam.zero_grad()
        if step % 100 < 4:
            log.append([step, round(loss.item(), 4)])
            seconds = time.perf_counter() - began
            print(f"step {step} numbers {COUNTS[step % 4]} loss {loss.item():.4f} {seconds:.0f} s", flush=True)
        if (step + 1) % checkpoint_every == 0:
            parts = {"spec": asdict(spec), "model": model.state_dict(), "muon": muon.averages, "adam": adam.state_dict()}
            torch.save({**parts, "step": step + 1, "seconds": time.perf_counter() - began, "log": log}, f"{state_file}.new")
            os.replace(f"{state_file}.new", state_file)
    model.eval().save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)
    record: dict[str, object] = {"command": "python -m treewise.training.pretrain", "settings": asdict(spec), "loss": log}
    record |= {"parameters": sum(p.numel() for p in model.parameters()), "wall_seconds": round(time.perf_counter() - began)}
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    state_file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Arguments:
    """Command line: `pretrain FOLDER [--steps N ...]`."""

    folder: tyro.conf.Positional[Path]
    """Where the model goes."""
    spec: tyro.conf.OmitArgPrefixes[Pretraining] = Pretraining()
    """What decides the weights."""
    threads: int = 2
    """CPU threads."""


if __name__ == "__main__":
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(arguments.threads)
    train(arguments.spec, arguments.folder)
