# task: gelu
#
# A workspace that lives as long as the module is written again by every call; outputs are new.

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspace = None

    def forward(self, x):
        x = x.contiguous()
        if self.workspace is None or self.workspace.shape != x.shape:
            self.workspace = torch.empty_like(x)
            self.ones = torch.ones(x.size(1), device=x.device)
            self.zeros = torch.zeros_like(x)
        kit.affine_into(self.workspace, x, self.ones, self.zeros)
        return kit.unary(self.workspace, 2)
