"""Batches in chunks and over processes: the gradient is that of the whole batch."""

import os
import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from torch import nn

from rankgrad.losses import spearman
from rankgrad.training.large_batch import in_chunks

import in_two_processes  # isort: skip
from conftest import ROOT, free_port  # isort: skip


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        frozen, self.unused = nn.Linear(6, 16).requires_grad_(False), nn.Linear(2, 2)
        self.layers = nn.Sequential(frozen, nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 1))

    def forward(self, inputs, scale):
        return self.layers(inputs * scale).squeeze(1)


def by_hand(network, *inputs, chunk):
    chunks = zip(*(values.split(chunk) for values in inputs), strict=True)
    return torch.cat([network(*values) for values in chunks])


@pytest.mark.parametrize("chunk", [7, 1000])
def test_gradients_random_state_and_statistics_are_those_of_the_chunks(chunk, generator):
    network = Network().double()
    inputs, target = torch.randn(2, 60, 6, generator=generator).double(), torch.randn(60, generator=generator)
    with torch.no_grad():
        assert in_chunks(network.eval(), *inputs, chunk=chunk).allclose(network(*inputs))
    expected, actual = [], []
    for forward, kept in ((by_hand, expected), (in_chunks, actual)):
        copy, given = deepcopy(network).train(), inputs.clone().requires_grad_()
        torch.manual_seed(3)
        spearman(forward(copy, *given, chunk=chunk), target).backward()
        assert copy.layers[0].weight.grad is copy.unused.weight.grad is None
        slopes = [weights.grad for weights in copy.layers[1:].parameters()]
        kept += [given.grad, *slopes, torch.get_rng_state(), *copy.buffers()]
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("chunk", "inputs", "message"),
    [
        (0, torch.zeros(2, 3, 6), "chunk is 0"),
        (2, [torch.zeros(3, 6), torch.zeros(2, 6)], r"\[3, 2\] examples"),
        (2, torch.zeros(2, 0, 6), "no examples"),
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
