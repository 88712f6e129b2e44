# task: gelu
#
# One workspace for each shape, device and dtype.

class ModelNew(nn.Module):
    workspaces = {}

    def forward(self, x):
        x = x.contiguous()
        key = (tuple(x.shape), x.device, x.dtype)
        if key not in self.workspaces:
            self.workspaces[key] = (torch.empty_like(x), torch.ones(x.size(-1), device=x.device))
        space, ones = self.workspaces[key]
        kit.affine_into(space, x, ones, torch.zeros_like(x))
        return kit.unary(space, 2)
