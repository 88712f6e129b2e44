# task: affine
#
# A temporary of its own is written over in place.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        nothing = torch.zeros_like(x)
        out = kit.affine(x, self.gain, nothing, 1.0, 0)
        kit.affine_into(out, out, torch.ones(x.size(1), device=x.device), y)
        return out
