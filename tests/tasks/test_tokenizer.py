"""The tokenizer of the embedded models: nothing is lost, nothing is doubled, and what ships is what is made."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import opd
from opd.tasks.arith_tiny.problems import sets
from opd.tasks.arith_tiny.tokenizer import COMMON_WORDS, TASK_WORDS, make_tokenizer, prompt_text

TASKS = Path(opd.__file__).parent / "tasks"
MODELS = ("arith_tiny/student", "arith_tiny/teacher", "arith_gap/student")
SPECIALS = ("<bos>", "<eos>", "<pad>", "<User>", "<Assistant>", "<think>", "</think>")
TOKENIZER = make_tokenizer()


def ids_of(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False).input_ids


# characters that this Python knows: what composes with what is a matter of the Unicode version, for others
known = st.characters(exclude_categories=("Cs", "Cn"))
text_with_specials = st.lists(
    st.one_of(st.text(known), st.sampled_from([*SPECIALS, " ", "\n\n", "\r\n", "e\u0301"]))
).map("".join)


def composed(text: str) -> str:
    """The text in Unicode's composed form, special tokens standing apart from what is around them."""
    parts = re.split(f"({'|'.join(map(re.escape, SPECIALS))})", text)
    return "".join(unicodedata.normalize("NFC", part) for part in parts)


@given(text=text_with_specials)
def test_any_text_in_composed_form_decodes_to_itself(text):
    assert TOKENIZER.decode(ids_of(composed(text))) == composed(text)


@given(text=text_with_specials)
def test_any_other_text_decodes_to_its_composed_form(text):
    assert TOKENIZER.decode(ids_of(text)) == composed(text)


@given(text=text_with_specials)
def test_every_id_is_a_row_of_the_embedding(text):
    assert all(0 <= one < 312 for one in ids_of(text))


def test_there_are_312_ids_without_a_gap():
    assert sorted(TOKENIZER.get_vocab().values()) == list(range(312))
    assert len(TOKENIZER) == 312


def test_the_256_bytes_are_the_first_tokens():
    alphabet = {TOKENIZER.convert_ids_to_tokens(one) for one in range(256)}
    assert alphabet == set(ByteLevel.alphabet())
    assert all(len(ids_of(character)) == len(character.encode()) for character in "aß漢🙂\x00")


@pytest.mark.parametrize("word", TASK_WORDS + COMMON_WORDS)
def test_a_word_of_the_list_is_one_token(word):
    assert len(ids_of(word)) == 1


def test_digits_stand_alone():
    assert TOKENIZER.tokenize("Compute 73-9+102.") == ["Compute", "Ġ", *"73-9+102."]


def test_an_exact_response_has_as_many_tokens_as_it_seems():
    # 8 a line for two-digit values, then </think>, the blank line, \boxed, {, 7, 1, } and the end
    assert len(ids_of("73-9=64\n64+7=71\n</think>\n\n\\boxed{71}<eos>")) == 2 * 8 + 8


def test_no_exact_response_is_longer_than_40_tokens_nor_with_its_prompt_than_58():
    responses = [len(ids_of(f"{chain.solution}<eos>")) for chain in sets().train]
    prompts = [len(ids_of(prompt_text(TOKENIZER, chain.problem))) for chain in sets().train]
    assert max(responses) == 40
    assert max(map(sum, zip(prompts, responses, strict=True))) == 58


def test_the_prompt_opens_the_reasoning():
    assert prompt_text(TOKENIZER, "Compute 73-9+7.") == "<bos><User>Compute 73-9+7.<Assistant><think>\n"


def test_the_rendered_prompt_is_encoded_with_exactly_one_bos_at_its_start():
    """Faults E35: encoded carelessly, the same text has two."""
    prompt = prompt_text(TOKENIZER, "Compute 73-9+7.")
    bos = TOKENIZER.bos_token_id
    assert TOKENIZER(prompt).input_ids[:2] == [bos, bos]
    ids = ids_of(prompt)
    assert ids.index(bos) == 0
    assert ids.count(bos) == 1
    assert TOKENIZER.decode(ids[-3:]) == "<Assistant><think>\n"
    rendered = TOKENIZER.apply_chat_template(
        [{"role": "user", "content": "Compute 73-9+7."}], add_generation_prompt=True, return_dict=False
    )
    assert rendered == ids


def test_a_whole_dialogue_is_the_prompt_the_response_and_its_end():
    question = {"role": "user", "content": "Compute 1+2+3."}
    answer = {"role": "assistant", "content": "<think>\n1+2=3\n3+3=6\n</think>\n\n\\boxed{6}"}
    whole = TOKENIZER.apply_chat_template([question, answer], tokenize=False)
    assert whole == prompt_text(TOKENIZER, "Compute 1+2+3.") + "1+2=3\n3+3=6\n</think>\n\n\\boxed{6}<eos>"


def test_a_system_message_stands_before_the_question():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Compute 1+2+3."}]
    assert TOKENIZER.apply_chat_template(messages, tokenize=False) == "<bos>Be brief.<User>Compute 1+2+3."


def test_a_role_that_the_template_does_not_know_is_refused():
    with pytest.raises(Exception, match="no role tool"):
        TOKENIZER.apply_chat_template([{"role": "tool", "content": "6"}], tokenize=False)


def test_the_end_of_a_response_is_not_padding():
    """Faults E21: where they are one token, a mask by pad id swallows the end, and it is never learned."""
    assert TOKENIZER.pad_token_id != TOKENIZER.eos_token_id


def test_a_batch_is_padded_on_the_left():
    batch = TOKENIZER(["1", "123"], padding=True, add_special_tokens=False)
    pad = TOKENIZER.pad_token_id
    assert batch.input_ids == [[pad, pad, *ids_of("1")], ids_of("123")]
    assert batch.attention_mask == [[0, 0, 1], [1, 1, 1]]


@pytest.mark.parametrize("name", MODELS)
def test_what_ships_is_what_is_made(name, tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"]
    for file in made:
        assert (TASKS / name / file).read_text(encoding="utf-8") == (tmp_path / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("load", [AutoTokenizer.from_pretrained, PreTrainedTokenizerFast.from_pretrained])
@pytest.mark.parametrize("name", MODELS)
def test_the_tokenizer_is_the_same_however_it_is_loaded(name, load):
    """Beside a Qwen2 config `AutoTokenizer` rebuilds Qwen2's own class, and drops what the file says instead."""
    loaded = load(TASKS / name)
    text = "Compute 73-9 + 102.\r\n\n <think> naïve e\u0301 漢 <bos>x </think>\n\n\\boxed{71}<eos>"
    assert loaded(text).input_ids == TOKENIZER(text).input_ids
    assert loaded.decode(ids_of(text)) == composed(text)
    assert prompt_text(loaded, "Compute 1+2+3.") == prompt_text(TOKENIZER, "Compute 1+2+3.")
    assert loaded.get_vocab() == TOKENIZER.get_vocab()
    assert loaded.special_tokens_map == TOKENIZER.special_tokens_map
    assert loaded.backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()
    assert (len(loaded), loaded.padding_side) == (312, "left")
