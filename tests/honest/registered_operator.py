# task: affine
#
# The extension is called through an operator of its own, registered with torch.library.

@torch.library.custom_op("honest_ops::affine", mutates_args=())
def affine(x: torch.Tensor, gain: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return kit.affine(x.contiguous(), gain, y.contiguous(), 1.0, 0)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return torch.ops.honest_ops.affine(x, self.gain, y)
