"""Rank Cranfield's abstracts only by the words of question and abstract: rerankers and encoders compared with BM25.

    python -m studies.cranfield_texts [RUN ...]    # after `python -m studies.converters.cranfield`; what is missing

Questions, folds, and metrics are those of `studies.cranfield`. Word vectors are not pretrained; networks learn them
from the training questions. A reranker (K-NRM, a bag of words) reads both texts; a step has some questions with all
their relevant abstracts and some others from each list. A ridge regression on pairs of words is fitted at once, to all
abstracts of the training questions. An encoder (a word CNN, the same for both sides) reads one
text; a step has questions with one relevant abstract each, and the other questions' abstracts are the negatives.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor, nn

from rankgrad import losses
from rankgrad.datasets.files.splits import Split
from rankgrad.inputs.text import of_strings
from rankgrad.io.results import Row
from rankgrad.models.backbones.bag_of_words import BagOfWords
from rankgrad.models.backbones.knrm import Knrm
from rankgrad.models.backbones.word_pair_ridge import WordPairRidge
from rankgrad.models.backbones.words import Words
from rankgrad.plain_text import PAIR
from rankgrad.seeding import derived_seed, generator
from rankgrad.vocabulary import Vocabulary
from studies import cranfield
from studies.compared import compared
from studies.cranfield import METHODS, NAMES, UPSTREAM, read, reranking
from studies.vectorized import Jobs, command

SEEDS = 2
BATCH, DEPTH, LONGEST = 8, 10, 160  # questions per step, abstracts per question, words per pair
SIZE = 32  # size of a word vector
RATES = (0.01, 0.03)
STEPS = (50, 100)
BACKBONES = {"bag_of_words": partial(BagOfWords, size=SIZE), "knrm": partial(Knrm, word_size=SIZE)}
IN_BATCH = {"info_nce": losses.info_nce, "hard_negative_triplet": losses.hard_negative_triplet}
QUESTIONS, ENCODER_RATES, ENCODER_STEPS = 64, (0.001, 0.003), (100, 200)  # questions per step of an encoder
PENALTIES = (1e-5, 1e-4, 1e-3)
RULE, RIDGE = "bm25", "word_pair_ridge"
RUNS = [RIDGE, *(f"{backbone}, ranknet" for backbone in BACKBONES), *(f"words, {loss}" for loss in IN_BATCH)]


@cache
def pairs() -> list[str]:
    """Return both texts of each row in the form that networks take."""
    table = read().table
    return [f"{query}{PAIR}{passage}" for query, passage in zip(table["query"], table["passage"], strict=True)]


def pairs_of(questions: Tensor) -> list[str]:
    """Return both texts of each abstract in the lists of questions."""
    depth, texts = read().relevance.shape[1], []
    for question in questions.tolist():
        texts += pairs()[question * depth : (question + 1) * depth]
    return texts


class Reranker(nn.Module):
    """A backbone of text pairs with a linear head, and the word numbers of all pairs (q, d, words)."""

    def __init__(self, backbone: str, learn: Tensor, seed: int):
        super().__init__()
        texts = pairs_of(learn)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "cranfield_texts"))
            self.backbone = BACKBONES[backbone](words=Vocabulary.of(texts).words)
            self.head = nn.Linear(self.backbone.size, 1)
        if backbone == "knrm":
            self.backbone.fit(Split(of_strings(texts)))
        tokens = self.backbone.tokenize(pairs())[:, :LONGEST]
        self.tokens = tokens.view(*read().relevance.shape, -1)

    def forward(self, questions: Tensor, documents: Tensor) -> Tensor:
        """Return scores (b, d) of documents (b, d) of questions (b,)."""
        tokens = self.tokens[questions.unsqueeze(1), documents]
        return self.head(self.backbone(tokens.flatten(0, 1))).view(documents.shape)

    @torch.no_grad()
    def every(self, questions: Tensor) -> Tensor:
        """Return scores (q, d) of whole lists."""
        documents = torch.arange(self.tokens.shape[1])
        return torch.cat([self(of_question, documents.unsqueeze(0)) for of_question in questions.split(1)])


class Encoder(nn.Module):
    """A word CNN for questions and abstracts, and the word numbers of both: (q, words) and (abstracts, words).

    Attributes:
        abstracts: the number of the abstract at each position of the lists (q, d).
    """

    def __init__(self, learn: Tensor, seed: int):
        super().__init__()
        table, _, relevance = read()
        depth = relevance.shape[1]
        questions = table["query"].tolist()[::depth]
        passages = sorted(set(table["passage"]))
        numbers = {passage: number for number, passage in enumerate(passages)}
        self.abstracts = torch.tensor([numbers[passage] for passage in table["passage"]]).view(relevance.shape)
        texts = [questions[question] for question in learn.tolist()]
        texts += [passages[number] for number in self.abstracts[learn].unique().tolist()]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, "cranfield_texts"))
            self.backbone = Words(words=Vocabulary.of(texts).words)
        self.questions = self.backbone.tokenize(questions)[:, :LONGEST]
        self.passages = self.backbone.tokenize(passages)[:, :LONGEST]

    def forward(self, questions: Tensor, abstracts: Tensor) -> Tensor:
        """Return the cosine (b, a) of each question with each abstract."""
        sides = self.backbone(self.questions[questions]), self.backbone(self.passages[abstracts])
        asked, answers = (nn.functional.normalize(side, dim=-1) for side in sides)
        return asked @ answers.mT

    @torch.no_grad()
    def every(self, questions: Tensor) -> Tensor:
        """Return scores (q, d) of whole lists."""
        pieces = torch.arange(len(self.passages)).split(200)
        scores = torch.cat([self(questions, piece) for piece in pieces], 1)
        return scores.gather(1, self.abstracts[questions])


def trained(
    network: Encoder | Reranker, loss: Callable[[], Tensor], tested: Tensor, *, rate: float, steps: Sequence[int]
) -> list[Tensor]:
    """Train a network by a loss that draws its own batch, and return its scores for other questions after `steps`."""
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    scores = []
    for step in range(1, steps[-1] + 1):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step in steps:
            scores.append(network.every(tested))
    return scores


def encoder_scores(run: str, learn: Tensor, tested: Tensor, rate: float, seed: int) -> list[Tensor]:
    """Train an encoder, and return its scores for other questions after each of `ENCODER_STEPS`."""
    _, loss = run.split(", ")
    relevance = read().relevance
    network, draws = Encoder(learn, seed), generator(seed, "cranfield_texts", "batches")
    is_relevant = torch.zeros(len(relevance), len(network.passages)).scatter(1, network.abstracts, relevance).bool()

    def of_batch() -> Tensor:
        questions = learn[torch.randperm(len(learn), generator=draws)[:QUESTIONS]]
        abstracts = torch.multinomial(is_relevant[questions].float(), 1, generator=draws).squeeze(1).unique()
        return IN_BATCH[loss](network(questions, abstracts), is_relevant[questions][:, abstracts])

    return trained(network, of_batch, tested, rate=rate, steps=ENCODER_STEPS)


def reranker_scores(run: str, learn: Tensor, tested: Tensor, rate: float, seed: int) -> list[Tensor]:
    """Train a reranker, and return its scores for other questions after each of `STEPS`."""
    backbone, loss = run.split(", ")
    relevance = read().relevance
    network, draws = Reranker(backbone, learn, seed), generator(seed, "cranfield_texts", "batches")

    def of_batch() -> Tensor:
        questions = learn[torch.randperm(len(learn), generator=draws)[:BATCH]]
        keys = torch.rand(len(questions), relevance.shape[1], generator=draws) + relevance[questions]
        documents = keys.topk(min(DEPTH, keys.shape[1])).indices  # relevant ones first
        truth = relevance[questions].gather(1, documents)
        return METHODS[loss](network(questions, documents).unsqueeze(0), truth.unsqueeze(0)).mean()

    return trained(network, of_batch, tested, rate=rate, steps=STEPS)


@torch.no_grad()
def ridge_scores(run: str, learn: Tensor, tested: Tensor, penalty: float, seed: int) -> list[Tensor]:
    """Fit a ridge regression, which has no seed, and return its scores for other questions."""
    relevance = read().relevance
    texts, depth = pairs_of(learn), relevance.shape[1]
    model = WordPairRidge(words=Vocabulary.of(texts).words, outputs=1, penalty=penalty)
    model.fit(Split(of_strings(texts), relevance[learn].flatten(), torch.full((len(learn),), depth)))
    lists = [model(model.tokenize(pairs_of(question))).squeeze(1) for question in tested.split(1)]
    return [torch.stack(lists)]


Train = Callable[[str, Tensor, Tensor, float, int], list[Tensor]]
FORMS: dict[
    str, tuple[Train, Sequence[float], Sequence[int]]
] = {  # by backbone: with the rates (or penalties) and steps to try
    RIDGE: (ridge_scores, PENALTIES, (1,)),
    **dict.fromkeys(BACKBONES, (reranker_scores, RATES, STEPS)),
    "words": (encoder_scores, ENCODER_RATES, ENCODER_STEPS),
}


def text_scores(run: str) -> tuple[Tensor, list[Row]]:
    """Return scores (seeds, q, d) and the settings of each fold."""
    train, rates, steps = FORMS[run.split(", ")[0]]
    return replace(reranking(), seeds=SEEDS).chosen_scores(run, partial(train, run), rates, steps)


def rows(run: str) -> list[Row]:
    """Return the metrics of a network, and their differences from BM25; or BM25's own."""
    scores, chosen_settings = cranfield.rule_scores(run) if run == RULE else text_scores(run)
    values = cranfield.values_of(scores)
    return compared("cranfield_texts", run, NAMES, values, baselines=[RULE]) + chosen_settings


if __name__ == "__main__":
    params = {
        "rate": RATES, "steps": STEPS, "seeds": SEEDS, "batch": BATCH, "depth": DEPTH, "longest": LONGEST,
        "encoder_rate": ENCODER_RATES, "encoder_steps": ENCODER_STEPS, "questions": QUESTIONS, "penalty": PENALTIES,
    }  # fmt: skip
    groups: dict[str, Jobs] = {run: {RULE: partial(rows, RULE), run: partial(rows, run)} for run in RUNS}
    command("cranfield_texts", groups, params=params, hashes={"oussbenk/cranfield-trec-dataset": UPSTREAM})
