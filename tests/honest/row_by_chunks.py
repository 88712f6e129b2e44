# task: affine
#
# A few rows at a time, into slices of one output.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        for start in range(0, x.size(0), 16):
            part = slice(start, start + 16)
            kit.affine_into(out[part], x[part], self.gain, y[part])
        return out
