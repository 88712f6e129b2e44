# task: affine
#
# Packed weights are made again when the parameter has another version or address.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.packed, self.of = None, None

    def forward(self, x, y):
        now = (self.gain.data_ptr(), self.gain._version)
        if self.of != now:
            self.packed, self.of = self.gain.detach().clone(), now
        return kit.affine(x.contiguous(), self.packed, y.contiguous(), 1.0, 0)
