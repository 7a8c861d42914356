"""The searches against a mock model whose every answer can be enumerated."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from regard.config.settings import SearchSettings
from regard.decoding.beam import beam_search
from regard.decoding.decoding import Decoding, Request
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import COVERAGE_FLOOR, coverage_penalty, length_penalty
from regard.decoding.search import search
from regard.errors import ContractError, NoAttention
from regard.models.contract import Model, State, Step
from regard.nn.attention.intervention import Intervention
from regard.nn.attention.memory import Memory
from regard.nn.attention.trace import Attention

PAD, UNK, BOS, EOS = range(4)
LONGEST = 64


class Mock(Model):
    """Logits from a random table over the whole history and the source; attention that spells the history."""

    def __init__(self, vocabulary: int = 7, seed: int = 0, sharpness: float = 1.5, attends: bool = True) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.vocabulary_size = vocabulary
        self.table = sharpness * torch.randn(LONGEST, vocabulary, vocabulary, generator=generator)
        self.source_table = sharpness * torch.randn(50, vocabulary, generator=generator)
        self.attends = attends
        self.rows: list[int] = []
        self.interventions: list[Intervention | None] = []

    def encode(
        self,
        source: Tensor,
        source_mask: Tensor | None = None,
        *,
        attention: bool = False,
        intervention: Intervention | None = None,
    ) -> Memory:
        assert source_mask is not None
        self.interventions.append(intervention)
        summary = (self.source_table[source] * source_mask.unsqueeze(-1)).sum(1)
        return Memory(source_mask, source_mask.sum(-1), (summary,))

    def start(self, memory: Memory) -> State:
        return State((torch.full((memory.sentences, LONGEST), PAD),))

    def step(
        self,
        token: Tensor,
        state: State,
        memory: Memory,
        *,
        attention: bool = False,
        trace: bool = False,
        intervention: Intervention | None = None,
    ) -> Step:
        self.rows.append(token.size(0))
        self.interventions.append(intervention)
        history = state.tensors[0].clone()
        if state.position:
            history[:, state.position - 1] = token
        rows = token.size(0) // memory.sentences
        hidden = memory.summary[0].repeat_interleave(rows, 0)
        for place in range(state.position):
            hidden = hidden + self.table[place, history[:, place]]
        weights = None
        if attention and self.attends:
            spelled = history[:, : memory.mask.size(1)].float() * memory.mask.repeat_interleave(rows, 0)
            weights = {"cross": spelled[:, None, None, None]}
        recorded: Attention | None = weights  # type: ignore[assignment]
        return Step(hidden, state.advance([history]), recorded)

    def project(self, hidden: Tensor, columns: Tensor | None = None) -> Tensor:
        return hidden.clone() if columns is None else hidden[:, columns]


def sentences(*lengths: int) -> tuple[Tensor, Tensor]:
    """Source ids (B, S) and their mask."""
    source = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        source[row, :length] = (torch.arange(length) * 7 + row * 3 + 5) % 46 + 4
        source[row, length - 1] = EOS
    return source, source != PAD


def log_probability(model: Mock, source: Tensor, mask: Tensor, ids: tuple[int, ...]) -> float:
    """Of one sentence, step by step."""
    memory = model.encode(source, mask)
    state = model.start(memory)
    total, previous = 0.0, BOS
    for token in ids:
        step = model.step(torch.tensor([previous]), state, memory)
        total += float(model.project(step.hidden).log_softmax(-1)[0, token])
        state, previous = step.state, token
    return total


def every_translation(vocabulary: int, longest: int) -> list[tuple[int, ...]]:
    words = [token for token in range(vocabulary) if token not in (PAD, BOS, EOS)]
    return [(*said, EOS) for length in range(longest) for said in itertools.product(words, repeat=length)]


def short(**changes: object) -> SearchSettings:
    """Settings for translations of at most 4 tokens."""
    base: dict[str, object] = {"max_length_ratio": 1e-6, "max_length_extra": 4, "length_penalty": 0.0}
    return SearchSettings.model_validate(base | changes)


def ids_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_is_exhaustive_search(alpha: float, seed: int) -> None:
    model = Mock(seed=seed)
    source, mask = sentences(5, 3)
    found = search(model, source, mask, short(beam=200, n_best=10, length_penalty=alpha))
    for row in range(2):
        exact = {}
        for ids in every_translation(7, 4):
            total = log_probability(model, source[row : row + 1], mask[row : row + 1], ids)
            exact[ids] = total / length_penalty(float(len(ids)), alpha)
        best = sorted(exact, key=lambda ids: -exact[ids])[:10]
        assert [hypothesis.ids for hypothesis in found[row]] == best
        for hypothesis in found[row]:
            assert hypothesis.finished
            assert hypothesis.score == pytest.approx(exact[hypothesis.ids], abs=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model = Mock(vocabulary=11, seed=seed)
    source, mask = sentences(3, 7, 5, 4, 9, 2, 2, 6, 8, 5)
    request = Request(SearchSettings(beam=1, max_length_extra=2, no_repeat_ngram=2), attention=True, unk=UNK)
    with torch.inference_mode():
        greedy = greedy_search(Decoding(model, source, mask, request))
        beam = beam_search(Decoding(model, source, mask, request))
    for left, right in zip(greedy, beam, strict=True):
        assert left[0].ids == right[0].ids
        assert left[0].token_log_probabilities == right[0].token_log_probabilities
        assert left[0].finished == right[0].finished
        assert left[0].score == right[0].score
        assert left[0].attended == right[0].attended
        assert left[0].alignment is not None
        assert right[0].alignment is not None
        assert torch.equal(left[0].alignment, right[0].alignment)


SETTINGS = {
    "greedy": SearchSettings(beam=1),
    "beam": SearchSettings(beam=4, n_best=3),
    "bounded": SearchSettings(beam=3, min_length_ratio=0.7, max_length_ratio=1.0, no_repeat_ngram=2),
    "coverage": SearchSettings(beam=3, coverage_penalty=0.3),
    "sample": SearchSettings(sample=True, n_best=3, temperature=1.3, top_k=6, top_p=0.9),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_batch_mates_change_nothing(name: str) -> None:
    model = Mock(vocabulary=9, seed=3)
    settings = SETTINGS[name].model_copy(update={"max_length_extra": 3})
    lengths = (9, 2, 5, 3, 8, 4, 4, 7, 6, 3)
    source, mask = sentences(*lengths)
    together = search(model, source, mask, settings, attention=True, candidates=3)
    for row, length in enumerate(lengths):
        alone = search(
            model,
            source[row : row + 1, :length],
            mask[row : row + 1, :length],
            settings,
            attention=True,
            candidates=3,
            indices=[row],
        )[0]
        assert ids_of([together[row]]) == ids_of([alone])
        for left, right in zip(together[row], alone, strict=True):
            assert left.score == pytest.approx(right.score, abs=1e-5)
            assert left.alignment is not None
            assert right.alignment is not None
            assert torch.equal(left.alignment, right.alignment)
            assert left.alignment.shape == (len(left.ids), length)
            assert [[i for i, _ in step] for step in left.candidates] == [
                [i for i, _ in step] for step in right.candidates
            ]


@pytest.mark.parametrize("name", SETTINGS)
def test_attention_and_probabilities_are_those_of_the_hypothesis_itself(name: str) -> None:
    model = Mock(vocabulary=9, seed=4)
    settings = SETTINGS[name].model_copy(update={"max_length_extra": 1, "max_length_ratio": 1.0})
    source, mask = sentences(9, 14, 12, 8, 10)
    for row, hypotheses in enumerate(search(model, source, mask, settings, attention=True)):
        for hypothesis in hypotheses:
            assert hypothesis.alignment is not None
            for step, weights in enumerate(hypothesis.alignment):
                spelled = (*hypothesis.ids[:step], *([0] * 20))[: weights.size(0)]
                assert weights.tolist() == list(spelled)
            exact = log_probability(model, source[row : row + 1], mask[row : row + 1], hypothesis.ids)
            assert hypothesis.log_probability == pytest.approx(exact, abs=1e-4)
            assert math.fsum(hypothesis.token_log_probabilities) == hypothesis.log_probability


def test_n_best_lists_are_distinct_and_sorted() -> None:
    source, mask = sentences(6, 4, 5)
    for hypotheses in search(Mock(seed=1), source, mask, SearchSettings(beam=6, n_best=6, max_length_extra=5)):
        assert len(hypotheses) == 6
        assert len({hypothesis.ids for hypothesis in hypotheses}) == 6
        finished = [hypothesis.score for hypothesis in hypotheses if hypothesis.finished]
        assert finished == sorted(finished, reverse=True)


def test_sentences_that_are_done_leave_the_batch() -> None:
    model = Mock(seed=2)
    source, mask = sentences(*[2] * 20, 12)
    search(model, source, mask, SearchSettings(beam=4, max_length_extra=1, max_length_ratio=1.0))
    assert model.rows[0] == 21
    assert model.rows[1] == 21 * 4
    assert model.rows[-1] == 4


def test_pad_and_bos_never_come() -> None:
    model = Mock(seed=5)
    model.source_table[:, [PAD, BOS]] += 20
    source, mask = sentences(5, 3, 6)
    for name, settings in SETTINGS.items():
        for hypotheses in search(model, source, mask, settings.model_copy(update={"max_length_extra": 3})):
            for hypothesis in hypotheses:
                assert not {PAD, BOS} & set(hypothesis.ids), name


def test_a_translation_that_cannot_end_is_returned_unfinished() -> None:
    model = Mock(seed=6)
    model.source_table[:, EOS] -= 1000
    source, mask = sentences(3, 4)
    for settings in (short(beam=1), short(beam=3, n_best=2), short(sample=True)):
        for hypotheses in search(model, source, mask, settings):
            assert len(hypotheses) == settings.n_best
            assert not hypotheses[0].finished
            assert len(hypotheses[0].ids) == 4
            assert EOS not in hypotheses[0].ids


@pytest.mark.parametrize("beam", [1, 4])
def test_lengths_keep_their_bounds(beam: int) -> None:
    source, mask = sentences(8, 4, 6)
    settings = SearchSettings(beam=beam, min_length_ratio=0.8, max_length_ratio=1.0, max_length_extra=1)
    for seed in range(5):
        found = search(Mock(seed=seed), source, mask, settings)
        for length, hypotheses in zip((8, 4, 6), found, strict=True):
            assert int(0.8 * length) <= len(hypotheses[0].ids) <= length + 1


@pytest.mark.parametrize("ngram", [1, 2, 3])
def test_no_ngram_comes_twice(ngram: int) -> None:
    source, mask = sentences(7, 9)
    base = SearchSettings(beam=4, min_length_ratio=1.0, no_repeat_ngram=ngram)
    blocked_something = False
    for seed in range(4):
        model = Mock(vocabulary=7, seed=seed)
        free = search(model, source, mask, base.model_copy(update={"no_repeat_ngram": 0}))
        blocked_something |= any(repeats(hypotheses[0].ids, ngram) for hypotheses in free)
        for hypotheses in search(model, source, mask, base):
            assert not repeats(hypotheses[0].ids, ngram)
    assert blocked_something


def repeats(ids: tuple[int, ...], ngram: int) -> bool:
    grams = [ids[start : start + ngram] for start in range(len(ids) - ngram + 1)]
    return len(grams) != len(set(grams))


@pytest.mark.parametrize("name", SETTINGS)
def test_prefixes_of_different_lengths_are_forced(name: str) -> None:
    model = Mock(vocabulary=9, seed=7)
    source, mask = sentences(4, 6, 5, 3)
    prefix = torch.tensor([[5, 5, 5, 5], [6, 4, 0, 0], [0, 0, 0, 0], [8, 0, 0, 0]])
    settings = SETTINGS[name].model_copy(update={"max_length_extra": 6})
    found = search(model, source, mask, settings, prefix=prefix)
    free = search(model, source, mask, settings)
    assert ids_of(found)[2] == ids_of(free)[2]
    for row, begins in ((0, (5, 5, 5, 5)), (1, (6, 4)), (3, (8,))):
        for hypothesis in found[row]:
            assert hypothesis.ids[: len(begins)] == begins
            exact = log_probability(model, source[row : row + 1], mask[row : row + 1], hypothesis.ids)
            assert hypothesis.log_probability == pytest.approx(exact, abs=1e-4)


def test_candidates_are_the_likeliest_tokens_of_the_model_itself() -> None:
    model = Mock(seed=8)
    source, mask = sentences(4)
    hypothesis = search(model, source, mask, SearchSettings(beam=3), candidates=7)[0][0]
    assert len(hypothesis.candidates) == len(hypothesis.ids)
    for token, own, step in zip(hypothesis.ids, hypothesis.token_log_probabilities, hypothesis.candidates, strict=True):
        probabilities = [probability for _, probability in step]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert dict(step)[token] == pytest.approx(math.exp(own), abs=1e-6)


def test_length_penalty_prefers_longer_translations() -> None:
    source, mask = sentences(6, 5, 4, 7)
    lengths = [
        sum(
            len(hypotheses[0].ids)
            for hypotheses in search(Mock(seed=9), source, mask, SearchSettings(beam=8, length_penalty=alpha))
        )
        for alpha in (0.0, 3.0)
    ]
    assert lengths[0] < lengths[1]


def test_coverage_penalty_is_gnmt_equation_14() -> None:
    coverage = torch.tensor([[0.5, 2.0, 0.0, 0.3], [1.0, 1.0, 1.0, 0.0]])
    mask = torch.tensor([[True, True, True, False], [True, True, True, False]])
    penalty = coverage_penalty(coverage, mask, beta=0.2)
    assert penalty[0] == pytest.approx(0.2 * (math.log(0.5) + math.log(COVERAGE_FLOOR)))
    assert penalty[1] == 0
    assert length_penalty(7.0, 0.5) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("beam", [1, 3])
def test_scores_contain_the_coverage_of_the_whole_hypothesis(beam: int) -> None:
    source, mask = sentences(6, 4)
    settings = SearchSettings(beam=beam, n_best=beam, coverage_penalty=0.4, length_penalty=0.7)
    for hypotheses in search(Mock(seed=2), source, mask, settings, attention=True):
        for hypothesis in hypotheses:
            assert hypothesis.alignment is not None
            covered = hypothesis.alignment.sum(0).clamp(COVERAGE_FLOOR, 1).log().sum().item()
            expected = hypothesis.log_probability / ((5 + len(hypothesis.ids)) / 6) ** 0.7 + 0.4 * covered
            assert hypothesis.score == pytest.approx(expected, abs=1e-4)


def test_without_attention_coverage_is_an_error_and_looking_gives_none() -> None:
    source, mask = sentences(3)
    model = Mock(attends=False)
    with pytest.raises(NoAttention, match="Mock has no attention"):
        search(model, source, mask, SearchSettings(coverage_penalty=0.2))
    hypothesis = search(model, source, mask, SearchSettings(), attention=True, unk=UNK)[0][0]
    assert hypothesis.attention is None
    assert hypothesis.alignment is None
    assert hypothesis.attended is None


def test_logits_that_are_not_finite_are_named() -> None:
    model = Mock()
    model.source_table[:] = torch.nan
    source, mask = sentences(3)
    with pytest.raises(ContractError, match="not finite at step 0"):
        search(model, source, mask, SearchSettings())


def test_the_intervention_reaches_encoder_and_steps() -> None:
    model = Mock()
    source, mask = sentences(3)
    intervention = Intervention(ban=(1,))
    search(model, source, mask, SearchSettings(), intervention=intervention)
    assert len(model.interventions) > 2
    assert all(given is intervention for given in model.interventions)


def test_no_sentence_gives_no_hypotheses() -> None:
    source, mask = torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3, dtype=torch.bool)
    assert search(Mock(), source, mask, SearchSettings()) == []
