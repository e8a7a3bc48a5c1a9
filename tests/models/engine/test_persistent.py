"""The persistent kernel: its layouts anywhere, its steps on a GPU.

Shapes: C CTAs, B blocks of 32 columns, R rows of a tile, H hidden, T tokens, V the tokenizer's ids, K bins.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from scipy import stats
from transformers import Qwen2ForCausalLM

from opd.models.engine import sampler as sampler_module
from opd.models.engine.persistent import build, fit
from opd.models.engine.persistent import steps as steps_module
from opd.models.engine.persistent.build import NotBuilt, compile_to, library
from opd.models.engine.persistent.cut import (
    CTAS,
    CUTS,
    DOWN_SPLIT,
    EXACT,
    WARPS,
    WORKERS,
    Cut,
    blocks_in_order,
)
from opd.models.engine.persistent.layout import layer_blocks, packed_features, turned_rows
from opd.models.engine.persistent.program import LaunchFailed
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, StopReason

# ---- layouts

every_cut = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)


@every_cut
def test_every_block_of_a_layer_is_read_by_somebody(cut):
    """And by one CTA alone, where the rows come out even."""
    blocks_CB = layer_blocks(cut).long()
    matrix, block = blocks_CB >> 29, blocks_CB & ((1 << 29) - 1)
    rows = ((cut.heads + 2 * cut.key_heads) * cut.head, cut.hidden, 2 * cut.inner, cut.hidden)
    columns = (cut.hidden, cut.attended, cut.hidden, cut.inner)
    for which, size in enumerate(a * b // 32 for a, b in zip(rows, columns, strict=True)):
        own = block[matrix == which]
        assert own.unique().equal(torch.arange(size))
        assert len(own) == size or cut.hidden == 896


@every_cut
def test_a_cta_has_the_rows_that_are_rotated_together(cut):
    low_CP, high_CP = turned_rows(cut)
    assert torch.cat([low_CP, high_CP]).unique().numel() == (cut.heads + 2 * cut.key_heads) * cut.head
    assert (high_CP - low_CP).unique().tolist() == [cut.head // 2]
    assert (low_CP // (cut.head // 2) % 2 == 0).all()


def test_a_cta_has_the_gates_and_ups_that_are_multiplied():
    """Behind q|k|v and the output projection: 8 tiles of 8 gates and their 8 ups, and one of 6 and 6."""
    first = (16 + 12) * 48
    for cta in (0, 77, 127):
        blocks_B = layer_blocks(EXACT)[cta].long() & ((1 << 29) - 1)
        eights = (
            blocks_B[first : first + 8 * 16 * 48].view(8, 24 * 2, 16) // 48
        )  # [tile, stage and warp and unit, row]
        sixes = blocks_B[first + 8 * 16 * 48 : first + 8 * 16 * 48 + 12 * 48].view(24 * 2, 12) // 48
        assert (eights == eights[:, :1]).all()
        assert (sixes == sixes[:1]).all()
        rows = torch.cat([eights[:, 0, :8].flatten(), sixes[0, :6]])
        ups = torch.cat([eights[:, 0, 8:].flatten(), sixes[0, 6:]])
        assert rows.tolist() == list(range(70 * cta, 70 * (cta + 1)))
        assert (ups - rows).unique().tolist() == [8_960]


def test_a_warp_has_the_same_columns_of_all_rows_in_ascending_order():
    """Of q|k|v: stage s, warp w, unit u is block 6 w + 2 s + u of each of the tile's rows."""
    columns = (layer_blocks(EXACT)[5, : 16 * 48].long() % 48).view(3, 8, 2, 16)
    for stage in range(3):
        for warp in range(8):
            for unit in range(2):
                assert columns[stage, warp, unit].unique().tolist() == [6 * warp + 2 * stage + unit]


def test_the_first_warps_have_one_block_more_where_they_do_not_come_out_even():
    """28 blocks: four each for four warps, three for the others; two of each first."""
    order = [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 19, 20, 22, 23, 25, 26, 2, 3, 6, 7, 10, 11, 14, 15, 18, 21, 24, 27]
    assert blocks_in_order(896) == order


def test_four_ctas_share_the_rows_of_down_a_quarter_of_the_columns_each():
    start = (16 + 12 + 8 * 16 + 12) * 48
    blocks_CB = layer_blocks(EXACT)[:, start:].long() & ((1 << 29) - 1)
    for cta in (0, 6, 127):
        rows, columns = blocks_CB[cta] // 280, blocks_CB[cta] % 280
        assert rows.unique().tolist() == list(range(48 * (cta // 4), 48 * (cta // 4 + 1)))
        assert columns.unique().tolist() == list(range(70 * (cta % 4), 70 * (cta % 4 + 1)))


def test_a_lane_has_the_fragments_of_two_products_in_one_load():
    """Lane t of a block's four loads 8 features: pairs 2 t of each of the four groups of 8 columns."""
    for t in range(4):
        features = packed_features()[8 * t : 8 * t + 8]
        assert features.tolist() == [8 * group + 2 * t + one for group in range(4) for one in range(2)]


def test_the_copy_of_the_weights_is_as_large_as_the_weights():
    """28 layers and a head of the 1.5B shape, plus what the last CTAs have no tile for."""
    layer = 2 * 1_536 * (2_048 + 1_536 + 3 * 8_960)
    taken = EXACT.weight_bytes(layers=28, vocabulary=151_665)
    assert 132 / 128 * 28 * layer + 2 * 151_665 * 1_536 <= taken < 132 / 128 * 28 * layer + 2 * 152_064 * 1_536 + 1


@every_cut
def test_what_the_kernel_and_the_package_both_say_is_the_same(cut):
    """Constants of shape.cuh, worked out here from their own expressions and the flags."""
    source = (build.SOURCES / "shape.cuh").read_text()
    said = {"OPD_EVERY_LANE": 0}
    said |= {name: int(value) for name, value in (flag.removeprefix("-D").split("=") for flag in cut.flags)}
    for line in re.findall(r"^constexpr (?:int|size_t|bool) (.+?);", source, re.MULTILINE):
        for name, expression in re.findall(
            r"(\w+) = ([^,?]+)(?:,|$)", line.replace("(size_t)", "").replace("/", "//")
        ):
            said[name] = eval(expression, {}, said) if "sizeof" not in expression else 0  # arithmetic of those before
    assert (said["ROWS"], said["PAGE"], said["CTAS"]) == (fit.ROWS, fit.PAGE_TOKENS, CTAS)
    assert said["TABLE"] * said["PAGE"] >= fit.MOST_TOKENS
    assert (said["WORKERS"], said["COMPUTE"], said["DOWN_SPLIT"]) == (WORKERS, WARPS, DOWN_SPLIT)
    assert (said["QKV"], said["GATED"], said["OUT"]) == (cut.turned_each, cut.gated_each, cut.out_each)
    assert layer_blocks(cut).shape == (said["WORKERS"], said["LAYER_BYTES"] // 64)
    assert said["LAYER_BYTES"] == cut.layer_bytes


# ---- where it does not fit


def test_another_shape_or_machine_is_refused_with_the_reason(make_decoder):
    model = make_decoder("qwen2", "bfloat16")
    assert "no GPU" in str(fit.misfit(model))
    assert "float32" in str(fit.misfit(make_decoder("qwen2")))
    with pytest.raises(AskedWrongly, match="can't run this model here: there is no GPU"):
        EngineSampler(model, Sampling(limit_tokens=4), persistent=True)
    assert EngineSampler(model, Sampling(limit_tokens=4)).said == "engine"


def test_a_card_with_other_sms_or_of_another_kind_is_refused(monkeypatch):
    cards = {
        "NVIDIA H200": (9, 0, 132),
        "NVIDIA H100 PCIe": (9, 0, 114),
        "NVIDIA B200": (10, 0, 148),
        "NVIDIA A100": (8, 0, 108),
    }
    for name, (major, minor, sms) in cards.items():
        card = SimpleNamespace(name=name, major=major, minor=minor, multi_processor_count=sms)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, card=card: card)
        reason = fit.device_misfit(torch.device("cuda"))
        assert (reason is None) == (name == "NVIDIA H200")
        assert reason is None or name in reason


def sizes(cut: Cut) -> SimpleNamespace:
    """Of a decoder, as `engine.shape` gives them."""
    own = {"hidden": cut.hidden, "inner": cut.inner, "heads": cut.heads, "key_heads": cut.key_heads}
    return SimpleNamespace(**own, head_size=cut.head, vocabulary=151_936, scale=cut.head**-0.5)


@every_cut
def test_the_shapes_it_is_made_for_fit(cut):
    assert fit.shape_misfit(sizes(cut), normed=cut.normed) is None
    assert "norms of their own" in str(fit.shape_misfit(sizes(cut), normed=not cut.normed))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("hidden", 2_560, "made for Qwen2 1.5B, Qwen2 0.5B, Qwen3 1.7B, .* this model has hidden size 2,560"),
        ("key_heads", 8, "8 of keys"),
        ("vocabulary", 2_000, "16 ids"),
        ("scale", 1.0, "sqrt"),
    ],
)
def test_another_shape_is_refused_with_those_that_there_are(name, value, said):
    shape = sizes(EXACT)
    setattr(shape, name, value)
    assert re.search(said, str(fit.shape_misfit(shape, normed=False)))


def test_a_room_that_is_too_long_or_has_other_pages_is_refused():
    room = {"page_tokens": 128, "sequence_tokens": 8_192, "pages": 512, "window": 32}
    assert fit.room_misfit(**room) is None
    assert "16,352 tokens" in str(fit.room_misfit(**room | {"sequence_tokens": 16_384}))
    assert "these 64" in str(fit.room_misfit(**room | {"page_tokens": 64}))
    assert "65,535 pages" in str(fit.room_misfit(**room | {"pages": 1 << 16}))


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    library.cache_clear()
    with pytest.raises(NotBuilt, match="nvcc is not to be found; install the CUDA toolkit"):
        library(EXACT)


def test_a_sampler_says_at_once_that_there_is_no_library(monkeypatch, make_decoder):
    """What the record of a run names is what runs: it asks for the library of the model's own sizes."""
    qwen3, asked = CUTS["Qwen3 1.7B"], []

    def refuse(cut):
        asked.append(cut)
        raise NotBuilt("nvcc is not to be found; install the CUDA toolkit")

    monkeypatch.setattr(fit, "misfit", lambda _: None)
    monkeypatch.setattr(fit, "cut_of", lambda _: qwen3)
    monkeypatch.setattr(sampler_module, "library", refuse)
    model = make_decoder("qwen2", "bfloat16")
    with pytest.raises(AskedWrongly, match="nvcc is not to be found"):
        EngineSampler(model, Sampling(limit_tokens=4), persistent=True)
    assert asked == [qwen3]
    monkeypatch.setattr(sampler_module, "library", lambda cut: None)
    with pytest.raises(AskedWrongly, match="at most 16,352 tokens, and 31,754"):
        EngineSampler(model, Sampling(limit_tokens=31_744), persistent=True, window=32, prompt_tokens=10)


@pytest.fixture
def sampler_beside_kernel(monkeypatch, make_decoder) -> Callable[..., EngineSampler]:
    """`sampler_beside_kernel(limit_tokens)`: of a small model, on a CPU on which the kernel could be started."""
    monkeypatch.setattr(fit, "misfit", lambda _: None)
    monkeypatch.setattr(fit, "cut_of", lambda _: None)
    monkeypatch.setattr(fit, "cut_for", lambda _: CUTS["Qwen2 0.5B"])
    monkeypatch.setattr(sampler_module, "library", lambda cut: None)
    monkeypatch.setattr(steps_module, "Program", lambda cut: SimpleNamespace())
    model = make_decoder("qwen2", "bfloat16", max_position_embeddings=32_768)

    def make(limit_tokens: int, **how) -> EngineSampler:
        sampler = EngineSampler(model, Sampling(limit_tokens=limit_tokens), page_tokens=128, window=32, **how)
        sampler._keeps = True  # as on a GPU
        return sampler

    return make


@pytest.mark.parametrize(("tokens", "fits"), [(16_256, True), (16_257, True), (16_352, True), (16_353, False)])
@pytest.mark.parametrize("told", [True, False])
def test_a_prompt_and_its_response_have_at_most_16352_tokens(sampler_beside_kernel, prompts, tokens, fits, told):
    """As many as fit 128 pages with the window behind them; where the prompt is known, that is said at once."""
    (prompt,) = prompts((7,) * (tokens - 100))
    how = {"prompt_tokens": tokens - 100} if told else {}
    sampler = sampler_beside_kernel(100, **how)
    assert told is False or sampler.said.startswith("engine: persistent" if fits else "engine: graphs (its sequences")
    engine = sampler._engine([sampler._request(prompt, 0)])
    assert (engine._persistent is not None) is fits
    assert sampler.said.startswith(
        "engine: persistent" if fits else "engine: graphs (its sequences have at most 16,352"
    )
    if not fits:
        with pytest.raises(AskedWrongly, match="at most 16,352 tokens"):
            (lambda must: must._engine([must._request(prompt, 0)]))(
                sampler_beside_kernel(100, persistent=True, **how)
            )


def test_a_room_of_the_longest_sequences_is_kept_for_all_that_the_kernel_takes_and_for_no_longer_one(
    sampler_beside_kernel, prompts
):
    sampler = sampler_beside_kernel(100)

    def engine_for(tokens: int):
        (prompt,) = prompts((7,) * (tokens - 100))
        return sampler._engine([sampler._request(prompt, 0)])

    first = engine_for(16_260)
    assert engine_for(16_352) is first
    assert sampler._kept[0].size.sequence_tokens == 16_352
    longer = engine_for(16_353)
    assert longer is not first
    assert longer._persistent is None


def test_pages_whose_turning_was_refused_are_not_turned_back(sampler_beside_kernel, prompts, monkeypatch):
    """The refused ones are rows still; what is refused on the way back is fragments still, and is turned later."""
    sampler = sampler_beside_kernel(100)
    (prompt,) = prompts((7,) * 300)
    request = sampler._request(prompt, 0)
    kernel = sampler._engine([request])._persistent
    request.pages, turned, refused = [4, 1, 2], [], [True]

    def turn(keys, values, listed, tokens, *, to_fragments, **_):
        if refused.pop():
            raise LaunchFailed("no more launches")
        turned.append((listed.tolist(), to_fragments))

    kernel._program.turn, kernel._laid_out = turn, True
    with pytest.raises(LaunchFailed):
        kernel.take_over([request])
    kernel.put_back([request])
    assert turned == []
    refused.append(False)
    kernel.take_over([request])
    refused.append(True)
    with pytest.raises(LaunchFailed):
        kernel.put_back([request])
    refused.append(False)
    kernel.put_back([request])
    assert turned == [([4, 1, 2], True), ([1, 2, 4], False)]


def test_a_compiler_that_fails_leaves_nothing_behind(tmp_path):
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\necho no such architecture >&2\nexit 3\n")
    compiler.chmod(0o755)
    with pytest.raises(NotBuilt, match="nvcc ended with 3: no such architecture"):
        compile_to(tmp_path / "kept" / "decode.so", EXACT, compiler)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_compiler_that_fails_is_run_once(tmp_path, monkeypatch):
    """However many samplers ask, each gets the reason; another compiler is tried."""
    for name in ("one", "other"):
        compiler = tmp_path / name
        compiler.write_text(f"#!/bin/sh\n[ $1 = --version ] || echo run >> {tmp_path}/runs; exit 3\n")
        compiler.chmod(0o755)
        monkeypatch.setattr(build, "find_compiler", lambda compiler=compiler: compiler)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        library.cache_clear()
        for _ in range(3):
            with pytest.raises(NotBuilt, match="nvcc ended with 3"):
                library(EXACT)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_other_flags_are_another_library(tmp_path, monkeypatch):
    """Or the build for racecheck would be compared with itself."""
    compiler, made = tmp_path / "nvcc", []
    compiler.write_text("#!/bin/sh\nexit 0\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(build, "find_compiler", lambda: compiler)
    monkeypatch.setattr(build, "compile_to", lambda path, cut, compiler: made.append(path))
    monkeypatch.setattr(build.ctypes, "CDLL", Path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for flags in (build.FLAGS, (*build.FLAGS, "-DOPD_EVERY_LANE=1")):
        monkeypatch.setattr(build, "FLAGS", flags)
        library.cache_clear()
        assert library(EXACT) == made[-1]
    library.cache_clear()
    assert len(set(made)) == 2


def test_a_library_is_kept_under_the_digest_of_sources_sizes_and_compiler(tmp_path, monkeypatch):
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\necho release 13.0\n")
    compiler.chmod(0o755)
    first = build.digest(EXACT, compiler)
    assert build.digest(EXACT, compiler) == first
    assert len({build.digest(cut, compiler) for cut in CUTS.values()}) == len(CUTS)
    compiler.write_text("#!/bin/sh\necho release 13.1\n")
    assert build.digest(EXACT, compiler) != first
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DX"))
    assert len({first, build.digest(EXACT, compiler)}) == 2


@pytest.mark.skipif(build.find_compiler() is None, reason="there is no nvcc to compile the kernel with")
def test_the_kernel_compiles_and_its_parameters_are_those_of_the_package(tmp_path):
    """What C takes for `Params` has the size of what is given; no GPU is needed for that."""
    import ctypes

    from opd.models.engine.persistent.program import Params

    path = tmp_path / "decode.so"
    compile_to(path, EXACT, build.find_compiler())
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        pytest.skip(f"CUDA's runtime is not here: {error}")
    assert library.opd_params_bytes() == ctypes.sizeof(Params)


# ---- steps


@pytest.fixture(scope="module")
def wide_decoder(make_wide) -> LanguageModel:
    """Two layers of the shape that the kernel is made for."""
    return make_wide()


@pytest.fixture(scope="module")
def gaps(wide_decoder: LanguageModel, gaps_of) -> Callable[..., torch.Tensor]:
    """Those of that model's rollouts."""
    return gaps_of(wide_decoder)


FREE = Sampling(limit_tokens=40)


@pytest.mark.gpu
def test_log_probabilities_are_as_close_to_float32_as_those_of_the_graphs(wide_decoder, gaps, of_lengths):
    """Lengths across every page's edge; both round to bf16 at the same points."""
    prompts = of_lengths(1, 127, 128, 129, 16, 1_023, 1_024, 600)
    ours = EngineSampler(wide_decoder, FREE, persistent=True)
    theirs = EngineSampler(wide_decoder, FREE, persistent=False)
    assert ours.said == "engine: persistent kernel to 8 sequences"
    own_T, other_T = gaps(ours.sample(prompts, seeds=[0])), gaps(theirs.sample(prompts, seeds=[0]))
    assert own_T.mean() < 1.2 * other_T.mean() + 1e-3
    assert own_T.max() < 2 * other_T.max() + 1e-2


@pytest.mark.gpu
def test_what_a_row_gets_depends_on_that_row_alone_to_the_last_bit(wide_decoder, same_bits, of_lengths):
    """Not on the order, the others, their lengths, the window, or on a run before it."""
    prompts = of_lengths(5, 127, 400, 129, 16, 1_000, 1_024, 600)
    whole = EngineSampler(wide_decoder, FREE, persistent=True).sample(prompts, seeds=[0])
    for window in (1, 8, 32):
        sampler = EngineSampler(wide_decoder, FREE, persistent=True, window=window)
        assert same_bits(sampler.sample(prompts[::-1], seeds=[0])[::-1], whole)
        assert same_bits(sampler.sample(prompts[2:3], seeds=[0]), whole[2:3])
        assert same_bits(sampler.sample([prompts[5], prompts[2]], seeds=[0]), [whole[5], whole[2]])


@pytest.mark.gpu
def test_a_long_sequence_is_merged_from_many_pages(wide_decoder, gaps, of_lengths):
    """Nine pages and more are merged another way than eight; 64 are the edge at 8,192 tokens, and 16,352 the most."""
    prompts = of_lengths(1_020, 1_148, 2_000, 8_180, 16_328)
    sampler = EngineSampler(wide_decoder, Sampling(limit_tokens=24), persistent=True)
    graphs = EngineSampler(wide_decoder, Sampling(limit_tokens=24), persistent=False)
    own_T, other_T = gaps(sampler.sample(prompts, seeds=[0])), gaps(graphs.sample(prompts, seeds=[0]))
    assert own_T.mean() < 1.2 * other_T.mean() + 1e-3


@pytest.mark.gpu
def test_rollouts_of_one_prompt_share_its_pages_and_come_and_go(wide_decoder, gaps, monkeypatch, of_lengths):
    """More requests than rows, prompts over a page long, ends at any time: entries turn all pages back and again."""
    model = replace(wide_decoder, stop_ids=frozenset(range(0, wide_decoder.vocabulary, 30)))
    sampler = EngineSampler(model, Sampling(limit_tokens=60), largest_batch=8, persistent=True, window=8)
    turned = []
    original = PersistentSteps.put_back
    monkeypatch.setattr(
        PersistentSteps, "put_back", lambda self, running: (turned.append(1), original(self, running))
    )
    rollouts = sampler.sample(of_lengths(200, 131, 64), seeds=range(8))
    assert len(turned) > 3
    assert {one.stop for one in rollouts} == {StopReason.EOS, StopReason.LENGTH}
    for one in rollouts:
        ends = [token in model.stop_ids for token in one.token_ids]
        assert ends.index(True) == len(ends) - 1 if one.stop is StopReason.EOS else not any(ends)
        assert one.stop is StopReason.EOS or len(one.token_ids) == 60
    graphs = EngineSampler(model, Sampling(limit_tokens=60), largest_batch=8, persistent=False)
    other_T = gaps(graphs.sample(of_lengths(200, 131, 64), seeds=range(8)))
    assert gaps(rollouts).mean() < 1.2 * other_T.mean() + 1e-3


@pytest.mark.gpu
def test_many_rows_are_the_graphs_and_the_last_eight_the_kernels(wide_decoder, gaps, monkeypatch, of_lengths):
    model = replace(wide_decoder, stop_ids=frozenset(range(0, wide_decoder.vocabulary, 40)))
    windows = []
    original = PersistentSteps.run
    monkeypatch.setattr(
        PersistentSteps,
        "run",
        lambda self, running, times: (windows.append(len(running)), original(self, running, times)),
    )
    sampler = EngineSampler(model, Sampling(limit_tokens=120), persistent=True, window=8)
    rollouts = sampler.sample(of_lengths(150, 30, 129, 128), seeds=range(6))
    assert windows
    assert max(windows) <= 8
    graphs = EngineSampler(model, Sampling(limit_tokens=120), persistent=False)
    other_T = gaps(graphs.sample(of_lengths(150, 30, 129, 128), seeds=range(6)))
    assert gaps(rollouts).mean() < 1.2 * other_T.mean() + 1e-3


@pytest.fixture(scope="module")
def first_logits(wide_decoder: LanguageModel) -> Callable[[Prompt], torch.Tensor]:
    """`first_logits(prompt)`: logits_V behind a prompt by a float32 forward, in float64 on the CPU."""

    @torch.no_grad()
    def compute(prompt: Prompt) -> torch.Tensor:
        exact = Qwen2ForCausalLM(wide_decoder.module.config).cuda().float().eval()
        exact.load_state_dict(wide_decoder.module.state_dict())
        logits_TV = exact(input_ids=torch.tensor([prompt.token_ids], device="cuda")).logits[0]
        return logits_TV[-1, : wide_decoder.vocabulary].double().cpu()

    return compute


def p_of_draws(ids: Sequence[int], share_V: torch.Tensor) -> float:
    """Of Pearson's chi-square over 20 bins of about equal probability, the likeliest tokens in the first.

    What has no share is in the last bin.
    """
    order_V = share_V.argsort(descending=True)
    middle_V = share_V[order_V].cumsum(0) - share_V[order_V] / 2
    bin_V = torch.empty_like(order_V).scatter_(0, order_V, (middle_V * 20).long().clamp(0, 19))
    counts_K = torch.bincount(bin_V[list(ids)], minlength=20)
    expected_K = torch.zeros(20, dtype=torch.float64).index_add_(0, bin_V, share_V) * len(ids)
    some = expected_K > 0  # a token may be likelier than a bin is wide
    if counts_K[~some].any():
        return 0.0
    expected = expected_K[some] * len(ids) / expected_K.sum()
    return float(stats.chisquare(counts_K[some].numpy(), expected.numpy()).pvalue)


def test_the_chi_square_can_tell_draws_of_a_cut_distribution_from_others():
    """Of 40 tokens, and of those that hold 60 % of them: each kind of draws fits its own distribution alone."""
    share_V = torch.arange(1, 41, dtype=torch.float64) / 820
    kept_V = torch.where(torch.arange(40) >= 25, share_V, 0)
    kept_V = kept_V / kept_V.sum()
    some = torch.Generator().manual_seed(0)
    for own_V, other_V in ((share_V, kept_V), (kept_V, share_V)):
        ids = torch.multinomial(own_V, 4_000, replacement=True, generator=some).tolist()
        assert p_of_draws(ids, own_V) > 1e-3
        assert p_of_draws(ids, other_V) < 1e-9


@pytest.mark.gpu
@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.5])
def test_tokens_are_drawn_as_often_as_the_distribution_says(wide_decoder, temperature, of_lengths, first_logits):
    """4,000 first tokens, against a float32 forward."""
    (prompt,) = of_lengths(70)
    sampling = Sampling(limit_tokens=1, temperature=temperature)
    sampler = EngineSampler(wide_decoder, sampling, largest_batch=8, persistent=True)
    rollouts = sampler.sample([prompt], seeds=range(4_000))
    share_V = (first_logits(prompt) / temperature).softmax(-1)
    assert p_of_draws([one.token_ids[0] for one in rollouts], share_V) > 1e-3


def kept_by(name: str, raw_V: torch.Tensor) -> tuple[float, torch.Tensor]:
    """A value for this filter, and which tokens it keeps, by its definition, from the likeliest to the rarest.

    Where the edge lies between two of the likelier tokens, it is in a wide gap: rounding then puts no other one in.
    """
    sorted_V, order_V = raw_V.sort(descending=True)
    gap_V = sorted_V[:-1] / sorted_V[1:]
    if name == "top_k":
        value: float = 10 + int(gap_V[9:29].argmax())
        stays_V = torch.arange(len(raw_V)) < value
    elif name == "top_p":
        value = 0.6
        stays_V = sorted_V.cumsum(0) - sorted_V < value
    else:
        last = 39 + int(gap_V[39:79].argmax())
        value = float((sorted_V[last] * sorted_V[last + 1]).sqrt() / sorted_V[0])
        stays_V = sorted_V >= value * sorted_V[0]
    return value, torch.empty(len(raw_V), dtype=torch.bool).scatter_(0, order_V, stays_V)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["top_p", "top_k", "min_p"])
def test_tokens_of_a_cut_distribution_are_drawn_as_often_as_it_says(wide_decoder, name, of_lengths, first_logits):
    """4,000 first tokens, against the enumerated distribution, and not as the whole one says.

    Both log-probabilities of a token are apart by the logarithm of the mass that is kept.
    """
    (prompt,) = of_lengths(70)
    raw_V = (first_logits(prompt) / 0.8).softmax(-1)
    value, stays_V = kept_by(name, raw_V)
    mass = float(raw_V[stays_V].sum())
    assert mass < 0.9
    sampling = Sampling(limit_tokens=1, temperature=0.8, **{name: value})
    sampler = EngineSampler(wide_decoder, sampling, largest_batch=8, persistent=True)
    rollouts = sampler.sample([prompt], seeds=range(4_000))
    ids = [one.token_ids[0] for one in rollouts]
    assert float(raw_V[ids].min()) > math.exp(-0.05) * float(raw_V[stays_V].min())  # at the edge, rounding decides
    share_V = torch.where(stays_V, raw_V, 0) / mass
    assert p_of_draws(ids, share_V) > 1e-3
    assert p_of_draws(ids, raw_V) < 1e-9
    for one in rollouts:
        assert one.raw_logp is not None
        assert one.logp[0] - one.raw_logp[0] == pytest.approx(-math.log(mass), abs=0.01)
        assert one.raw_logp[0] == pytest.approx(math.log(raw_V[one.token_ids[0]]), abs=0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", [{"top_p": 0.9}, {"top_k": 20, "temperature": 0.7}, {"min_p": 0.05}], ids=str)
def test_a_cut_distribution_is_that_of_the_graphs(wide_decoder, settings, of_lengths):
    """Where both have drawn the same so far, the log-probabilities are close, cut and raw."""
    cut = Sampling(limit_tokens=4, **settings)
    ours = EngineSampler(wide_decoder, cut, persistent=True).sample(of_lengths(60, 130), seeds=range(40))
    theirs = EngineSampler(wide_decoder, cut, persistent=False).sample(of_lengths(60, 130), seeds=range(40))
    compared = 0
    for one, other in zip(ours, theirs, strict=True):
        alike = [a == b for a, b in zip(one.token_ids, other.token_ids, strict=True)]
        count = alike.index(False) if False in alike else len(alike)
        compared += count
        for name in ("logp", "raw_logp"):
            own_T, other_T = torch.tensor(getattr(one, name)[:count]), torch.tensor(getattr(other, name)[:count])
            assert not count or (own_T - other_T).abs().max() < 0.05
    assert compared >= 60


@pytest.mark.gpu
def test_weights_that_are_written_in_place_are_laid_out_anew(wide_decoder, gaps, same_bits, of_lengths):
    sampler = EngineSampler(wide_decoder, FREE, persistent=True)
    before = sampler.sample(of_lengths(30), seeds=[0])
    parameters = list(wide_decoder.module.parameters())
    kept = [parameter.detach().clone() for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter in parameters:
                parameter.mul_(1.05)
        after = sampler.sample(of_lengths(30), seeds=[0])
        graphs = EngineSampler(wide_decoder, FREE, persistent=False).sample(of_lengths(30), seeds=[0])
        assert before[0].logp != after[0].logp
        assert gaps(after).mean() < 1.5 * gaps(graphs).mean() + 1e-3
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.copy_(value)
    assert same_bits(sampler.sample(of_lengths(30), seeds=[0]), before)


@pytest.mark.gpu
def test_where_a_launch_is_refused_the_graphs_go_on(wide_decoder, gaps, of_lengths):
    sampler = EngineSampler(wide_decoder, FREE, persistent=True, window=8)
    sampler.sample(of_lengths(30, 140), seeds=[0])
    kernel = sampler._kept[1]._persistent
    decode, launches = kernel._program.decode, []

    def refuse_the_third(params):
        launches.append(1)
        if len(launches) == 3:
            raise LaunchFailed("too many blocks in cooperative launch")
        decode(params)

    kernel._program.decode = refuse_the_third
    with pytest.warns(UserWarning, match="too many blocks in cooperative launch"):
        rollouts = sampler.sample(of_lengths(30, 140), seeds=[0])
    assert len(launches) == 3
    graphs = EngineSampler(wide_decoder, FREE, persistent=False).sample(of_lengths(30, 140), seeds=[0])
    assert gaps(rollouts).mean() < 1.2 * gaps(graphs).mean() + 1e-3


@pytest.mark.gpu
def test_weights_that_are_not_finite_are_an_error_and_leave_the_cache_clean(wide_decoder, same_bits, of_lengths):
    sampler = EngineSampler(wide_decoder, FREE, persistent=True)
    before = sampler.sample(of_lengths(30), seeds=[0])
    weight = wide_decoder.module.model.layers[1].mlp.down_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(math.nan)
    try:
        with pytest.raises(FloatingPointError, match="not finite"):
            sampler.sample(of_lengths(30), seeds=[0])
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert same_bits(sampler.sample(of_lengths(30), seeds=[0]), before)


@pytest.mark.gpu
@pytest.mark.patient
def test_ten_thousand_launches_give_the_same_twice(wide_decoder, same_bits, of_lengths):
    sampler = EngineSampler(wide_decoder, Sampling(limit_tokens=10_000), persistent=True, window=1)
    first = sampler.sample(of_lengths(5, 60, 100, 128, 200, 300, 17, 90), seeds=[0])
    again = sampler.sample(of_lengths(5, 60, 100, 128, 200, 300, 17, 90), seeds=[0])
    assert same_bits(first, again)
