# task: layernorm
#
# A module of its own with the reference's parameter names, inside a Sequential-like shell.

class Norm(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        return kit.layernorm(x, self.weight, self.bias, True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = Norm(features)

    def forward(self, x):
        return self.norm(x.contiguous())
