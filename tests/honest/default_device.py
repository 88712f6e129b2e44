# task: affine
#
# The default device is set once, for the whole file: torch keeps it as a mode.

torch.set_default_device("cuda")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return kit.affine(x.contiguous(), self.gain, y.contiguous(), 1.0, 0)
