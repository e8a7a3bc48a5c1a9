"""The tokenizer of the embedded models: byte-level BPE with isolated digits, and a chat template.

    <bos><User>Compute 73-9+7.<Assistant><think>⏎        the prompt; what follows is the model's

It is a Qwen2 tokenizer with a vocabulary of its own. Beside a Qwen2 config, `AutoTokenizer` brings in that
class whatever a directory declares; a tokenizer of another kind would split text in one way where it is made
and in another where it is loaded. Text is brought into Unicode's composed form (NFC) first; any text in that
form decodes to itself, because the 256 bytes are tokens. Digits stay alone, so that 73 is two tokens.

The merges are spelled out rather than counted in a corpus: each word is built up from its left, which makes
it one token, and the vocabulary the same with every version of a trainer.

Like the tokenizers of large reasoners, this one puts `<bos>` before whatever it is asked to encode, and so
does the template: what the template rendered is encoded with `add_special_tokens=False` (faults E35).
"""

from tokenizers import AddedToken, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

BOS = "<bos>"
EOS = "<eos>"
PAD = "<pad>"  # a token of its own, so that a mask by pad id can't swallow the end of a response (E21)
USER = "<User>"
ASSISTANT = "<Assistant>"
THINK = "<think>"
END_THINK = "</think>"

LARGEST_CONTEXT = 512  # tokens; a prompt and an exact response of the task take 58 at most

TASK_WORDS = ("\n\n", "Compute", "\\boxed")
COMMON_WORDS = (" the", " answer", " is", " step", " reason", " final", " within", "Please")
"""Of the instructions that people add to a problem; they bring the vocabulary to 312, a multiple of 8."""

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ message['content'] }}"
    "{% elif message['role'] == 'user' %}<User>{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}<Assistant>{{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ raise_exception('no role ' + message['role'] + '; there are system, user, assistant') }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<Assistant><think>\n{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer, made anew: the same vocabulary, template and special tokens every time."""
    tokenizer = Qwen2Tokenizer(
        vocab=_vocabulary(),
        merges=_merges(),
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=None,  # nothing is unknown; left out, it would be a 313th token
        extra_special_tokens=[USER, ASSISTANT],
        add_prefix_space=False,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=LARGEST_CONTEXT,
        chat_template=CHAT_TEMPLATE,
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in (THINK, END_THINK)])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, tokenizer.bos_token_id)]
    )
    return tokenizer


def prompt_text(tokenizer: PreTrainedTokenizerFast, problem: str) -> str:
    """What the model reads before it writes: the problem in the chat template, with the reasoning opened."""
    return str(
        tokenizer.apply_chat_template(
            [{"role": "user", "content": problem}], tokenize=False, add_generation_prompt=True
        )
    )


def _vocabulary() -> dict[str, int]:
    """The 256 bytes, in the order of their byte-level letters, then a token for each merge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {piece: number for number, piece in enumerate([*alphabet, *("".join(pair) for pair in _merges())])}


def _merges() -> list[tuple[str, str]]:
    """For each word, its first two letters, then that with the third, and so on; each pair once."""
    pairs: dict[tuple[str, str], None] = {}
    for word in TASK_WORDS + COMMON_WORDS:
        letters = _letters(word)
        for end in range(1, len(letters)):
            pairs[letters[:end], letters[end]] = None
    return list(pairs)


def _letters(word: str) -> str:
    """The word as the byte-level alphabet writes it: a letter for each byte."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)
    return "".join(letters for letters, _ in pieces)
