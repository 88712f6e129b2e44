# task: gelu
#
# The output is a transposed view: the values are right, the strides are its own.

class ModelNew(nn.Module):
    def forward(self, x):
        return kit.unary(kit.transpose(x.contiguous()), 2).t()
