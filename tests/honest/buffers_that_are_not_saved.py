# task: affine
#
# Constants are buffers that no state_dict holds.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.register_buffer("one", torch.ones(features), persistent=False)

    def forward(self, x, y):
        out = kit.affine(x.contiguous(), self.gain, torch.zeros_like(y, memory_format=torch.contiguous_format), 1.0, 0)
        return kit.affine(out, self.one, y.contiguous(), 1.0, 0)
