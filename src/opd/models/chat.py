"""A problem → the token ids that a model sees. The one place where a chat template is applied.

The template's text is encoded without adding special tokens, because it holds them already; two
beginning-of-sequence tokens are an error (faults E35), and so are doubled braces, which a template that was
never filled in leaves behind (E38).
"""

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout, StopReason

PROBLEM = "{problem}"


def check_template(template: str) -> None:
    """Nothing, when `{problem}` stands in the user's template once and no brace is doubled."""
    if template.count(PROBLEM) != 1:
        raise AskedWrongly(f"prompt {template!r}: {PROBLEM} must stand in it exactly once")
    if "{{" in template or "}}" in template.replace(PROBLEM, ""):
        raise AskedWrongly(f"prompt {template!r}: doubled braces reach the model as they are; write single ones")


def user_text(template: str, problem: str) -> str:
    """The user's turn; braces in the problem stay as they are."""
    return template.replace(PROBLEM, problem)


def prompt_ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    """The ids of one user turn under the tokenizer's chat template, up to where the model goes on."""
    if not tokenizer.chat_template:
        raise AskedWrongly("the tokenizer has no chat template: save one with it (tokenizer.chat_template)")
    try:
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )
        ids = tuple(tokenizer(rendered, add_special_tokens=False, verbose=False)["input_ids"])  # `check_fits` says it
    except (TemplateError, OverflowError, TypeError, ValueError) as error:
        raise AskedWrongly(f"the chat template can't render {text[:40]!a}: {error}") from error
    bos = tokenizer.bos_token_id
    if bos is not None and ids.count(bos) > 1:
        raise AskedWrongly(f"the chat template gives two beginning-of-sequence tokens ({tokenizer.bos_token!r})")
    return ids


def opens_reasoning(tokenizer: Any, token_ids: Sequence[int]) -> bool:
    """Whether the prompt ends in `<think>`, so that the response begins inside the reasoning."""
    return str(tokenizer.decode(token_ids, skip_special_tokens=False)).rstrip().endswith("<think>")


def response_text(model: LanguageModel, rollout: Rollout) -> str:
    """What the model wrote: marks such as `</think>` stay, the end-of-sequence token goes."""
    return text_of(model.tokenizer, rollout.token_ids, stop=rollout.stop)


def text_of(tokenizer: Any, token_ids: Sequence[int], *, stop: StopReason) -> str:
    """The text of sampled tokens, as `response_text` has it."""
    ids = token_ids if stop.cut_short else token_ids[:-1]
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def check_fits(
    model: LanguageModel, prompts: Sequence[Prompt], *, limit_tokens: int, shorten: str = "the prompt"
) -> None:
    """Nothing, when each prompt and `limit_tokens` new tokens fit the positions of the model; else `AskedWrongly`.

    `shorten` is what to shorten where the prompt alone leaves no room.
    """
    longest = max(prompts, key=lambda prompt: len(prompt.token_ids), default=None)
    if longest is not None and len(longest.token_ids) + limit_tokens > model.context_tokens:
        prompt_tokens = len(longest.token_ids)
        remedy = "lower limit_tokens" if prompt_tokens < model.context_tokens else f"shorten {shorten}"
        raise AskedWrongly(
            f"row {longest.row}: {prompt_tokens} prompt tokens + limit_tokens = {limit_tokens} exceed the "
            f"context of {model.context_tokens} tokens of {model.path}; {remedy}"
        )
