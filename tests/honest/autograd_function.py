# task: affine
#
# forward goes through torch.autograd.Function.

class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, y):
        ctx.save_for_backward(x, gain)
        return kit.affine(x.contiguous(), gain, y.contiguous(), 1.0, 0)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("forward only")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))

    def forward(self, x, y):
        return Affine.apply(x, self.gain, y)
