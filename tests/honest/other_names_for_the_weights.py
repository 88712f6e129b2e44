# task: affine
#
# The parameter has another name; equal seeds make it the reference's.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return kit.affine(x.contiguous(), self.scale, y.contiguous(), 1.0, 0)
