# task: row_max
#
# A size is kept on the device and read back: a few values may be.

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kind", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, x):
        return kit.rows(x.contiguous(), self.kind.item())
