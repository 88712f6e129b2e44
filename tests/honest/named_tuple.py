# task: pair
#
# Two outputs by name.

from collections import namedtuple

Outputs = namedtuple("Outputs", ["whole", "half"], defaults=[None])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        half = kit.affine(x, self.gain, y, 0.5, 0)
        return Outputs(whole=kit.affine(x, self.gain, y, 1.0, 0), half=half)
