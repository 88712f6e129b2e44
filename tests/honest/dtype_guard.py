# task: gelu
#
# Other dtypes, ranks and layouts are refused in so many words.

class ModelNew(nn.Module):
    def forward(self, x):
        if x.dtype != torch.float32:
            raise NotImplementedError(f"float32 only, not {x.dtype}")
        if not x.is_contiguous():
            raise ValueError("the input has to be contiguous")
        return kit.unary(x, 2)
