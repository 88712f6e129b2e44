"""Token probabilities of a language model: temperature-scaled softmax over the vocabulary."""

import torch
import torch.nn as nn

batch_size = 512
vocabulary = 32000


class Model(nn.Module):
    """Scales the logits of the last position by a temperature and normalises each row."""

    def __init__(self, temperature: float):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.softmax(logits / self.temperature, dim=-1)


def get_inputs():
    return [torch.randn(batch_size, vocabulary)]


def get_init_inputs():
    return [0.8]
