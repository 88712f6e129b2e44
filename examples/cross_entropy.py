"""The training loss of a classifier: cross entropy of logits against integer labels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
classes = 1000


class Model(nn.Module):
    """Mean negative log-likelihood over the batch."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, labels)


def get_inputs():
    return [torch.randn(batch_size, classes), torch.randint(0, classes, (batch_size,))]


def get_init_inputs():
    return []
