"""A model directory as a judge, through the sampler that evaluations use: the engine where it can run the model.

Greedy is `top_k = 1`: of the distribution only the likeliest token is left (the lowest id of equals), and the noise
of the sampler decides nothing.
"""

from collections.abc import Sequence

import torch

from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.settings import LocalJudge
from opd.models.chat import prompt_ids, response_text
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel, find_model, load_model, model_digest
from opd.models.machine import choose_device, dtype_meant
from opd.models.samplers import choose_sampler
from opd.records.rollouts import Prompt


class LocalBackend:
    """Replies of a model that is loaded here."""

    def __init__(self, language_model: LanguageModel, sampler: Sampler, *, model: JudgeModel, batch: int) -> None:
        if model.limit_tokens is None:
            raise ValueError("a local judge has a limit of tokens")
        self._language_model = language_model
        self._sampler = sampler
        self._model = model
        self._room_tokens = language_model.context_tokens - model.limit_tokens
        self._batch = batch

    @property
    def model(self) -> JudgeModel:
        """Which model, by the digest of its files, and what shapes its replies."""
        return self._model

    def replies(self, turns: Sequence[Asked]) -> list[Reply | NoReply]:
        """A reply to each turn; none where a turn does not fit the model, or its numbers overflow."""
        prompts = [self._prompt(row, asked) for row, asked in enumerate(turns)]
        fitting = [prompt for prompt in prompts if len(prompt.token_ids) <= self._room_tokens]
        found: dict[int, Reply | NoReply] = {
            prompt.row: NoReply(
                reason=f"{len(prompt.token_ids)} prompt tokens and {self._model.limit_tokens} of a reply exceed the "
                f"context of {self._language_model.context_tokens} tokens"
            )
            for prompt in prompts
        }
        for start in range(0, len(fitting), self._batch):
            found |= self._replies_at_once(fitting[start : start + self._batch])
        return [found[row] for row in range(len(turns))]

    def _replies_at_once(self, prompts: Sequence[Prompt]) -> dict[int, Reply | NoReply]:
        try:
            rollouts = self._sampler.sample(prompts, seeds=(0,))
        except FloatingPointError as error:
            return {prompt.row: NoReply(reason=f"the judge's numbers overflow: {error}") for prompt in prompts}
        return {
            rollout.prompt.row: Reply(
                text=response_text(self._language_model, rollout), cut_short=rollout.stop.cut_short
            )
            for rollout in rollouts
        }

    def close(self) -> None:
        """Nothing is held that the end of the process would not free."""

    def _prompt(self, row: int, asked: Asked) -> Prompt:
        tokenizer = self._language_model.tokenizer
        turn = without_control_tokens(asked.turn, tokenizer.get_added_vocab())
        return Prompt(row=row, problem=asked.turn, answer="", token_ids=prompt_ids(tokenizer, turn))


def without_control_tokens(text: str, added: Sequence[str] | dict[str, int]) -> str:
    """The text with a blank inside whatever the tokenizer would read as one of its added tokens.

    Fenced texts hold none with a `<` any more; this is for tokenizers that write theirs in another way.
    """
    for token in sorted(added, key=len, reverse=True):
        if len(token) > 1 and not token.isspace():
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def open_local(settings: LocalJudge) -> LocalBackend:
    """The judge of a model directory, loaded; `AskedWrongly` for one that can't be used."""
    path = find_model(settings.model, settings.revision)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device)
    language_model = load_model(path, dtype=dtype_meant(settings.dtype, device=device), device=device)
    sampling = Sampling(top_k=1, limit_tokens=settings.limit_tokens)
    chosen = choose_sampler(language_model, sampling, engine=settings.engine, largest_batch=settings.largest_batch)
    return LocalBackend(
        language_model,
        chosen.sampler,
        model=JudgeModel(
            name=path.resolve().name,
            model_digest=model_digest(path),
            dtype=str(language_model.module.dtype).removeprefix("torch."),
            limit_tokens=settings.limit_tokens,
        ),
        batch=settings.largest_batch,
    )
