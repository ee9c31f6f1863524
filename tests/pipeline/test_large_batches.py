"""Batches in chunks and over processes: the gradient is that of the whole batch."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn

from rankgrad.losses import spearman
from rankgrad.training.large_batch import in_chunks

import in_two_processes  # isort: skip
from conftest import ROOT, free_port  # isort: skip


class Network(nn.Module):
    def __init__(self, *, dropout: float = 0.0, normalize: bool = False):
        super().__init__()
        widths = [6, 16, 16]
        parts = [[nn.Linear(before, after), nn.Tanh(), nn.Dropout(dropout)] for before, after in pairwise(widths)]
        norm = [nn.BatchNorm1d(16)] if normalize else []
        self.layers = nn.Sequential(*parts[0], *norm, *parts[1], nn.Linear(16, 1)).double()

    def forward(self, inputs, scale=None):
        return self.layers(inputs if scale is None else inputs * scale).squeeze(1)


def gradients(network, scores, target):
    spearman(scores, target).backward()
    return [weights.grad for weights in network.parameters()]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_inputs_have_the_gradient_of_the_whole_batch(chunk, generator):
    inputs = torch.randn(2, 100, 6, generator=generator, dtype=torch.float64).requires_grad_()
    network, target = Network(), torch.randn(100, generator=generator)
    slopes = []
    for scores in (network(*inputs), in_chunks(network, *inputs, chunk=chunk)):
        slopes += torch.autograd.grad(spearman(scores, target), inputs)
    assert torch.allclose(*slopes, rtol=1e-9, atol=1e-12)


def test_dropout_and_batch_normalization_are_those_of_chunks(generator):
    inputs = torch.randn(60, 6, generator=generator, dtype=torch.float64)
    target = torch.randn(60, generator=generator)
    plain, chunked = (Network(dropout=0.3, normalize=True) for _ in range(2))
    chunked.load_state_dict(plain.state_dict())
    torch.manual_seed(3)
    expected = gradients(plain, torch.cat([plain(part) for part in inputs.split(20)]), target)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    slopes = gradients(chunked, in_chunks(chunked, inputs, chunk=20), target)
    assert torch.get_rng_state().equal(after)
    assert all(
        torch.allclose(slope, expected_slope, rtol=1e-9, atol=1e-12)
        for slope, expected_slope in zip(slopes, expected, strict=True)
    )
    assert all(slope.equal(other) for slope, other in zip(chunked.buffers(), plain.buffers(), strict=True))


def test_what_is_frozen_or_not_used_has_no_gradient_and_without_gradient_nothing_is_kept(generator):
    inputs, network = torch.randn(9, 6, generator=generator, dtype=torch.float64), Network()
    network.layers[0].requires_grad_(False)
    network.unused = nn.Linear(2, 2)
    in_chunks(network, inputs, chunk=4).sum().backward()
    assert network.layers[0].weight.grad is network.unused.weight.grad is None
    assert network.layers[-1].weight.grad is not None
    with torch.no_grad():
        assert torch.allclose(in_chunks(network, inputs, chunk=4), network(inputs))


@pytest.mark.parametrize(
    ("chunk", "inputs", "message"),
    [
        (0, [torch.zeros(3, 6)], "chunk is 0"),
        (2, [torch.zeros(3, 6), torch.zeros(2, 6)], r"\[3, 2\] examples"),
        (2, [torch.zeros(0, 6)], "no examples"),
    ],
)
def test_impossible_chunks_are_refused(chunk, inputs, message):
    with pytest.raises(ValueError, match=message):
        in_chunks(Network(), *inputs, chunk=chunk)


def test_a_training_in_two_processes_or_in_chunks_learns_what_one_learns_from_whole_batches(tmp_path):
    words, port = [sys.executable, in_two_processes.__file__], str(free_port())
    modules = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    running = [
        subprocess.Popen([*words, str(rank), str(tmp_path), port], stderr=subprocess.PIPE, env=modules)
        for rank in range(2)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    processes = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    normalized = (tensor["normalized"] for tensor in processes)  # each by its own rows, but afterwards alike
    assert all(tensor.equal(expected_tensor) for tensor, expected_tensor in zip(*normalized, strict=True))
    for name, case in in_two_processes.cases().items():
        expected, chunked = in_two_processes.trained(*case), in_two_processes.trained(*case, chunk=3)
        for weights_ in (chunked, *(tensor[name] for tensor in processes)):
            for tensor, expected_tensor in zip(weights_, expected, strict=True):
                assert torch.allclose(tensor, expected_tensor, rtol=0, atol=1e-6), name
