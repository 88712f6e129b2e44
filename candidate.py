import torch


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.rand(64))

    def forward(self, x):
        return x.clone()
