# task: transpose
#
# An error of the kernel is raised again with a hint; nothing else is tried.

class ModelNew(nn.Module):
    def forward(self, x):
        try:
            return kit.transpose(x.contiguous())
        except RuntimeError as error:
            raise RuntimeError(f"transpose failed on {tuple(x.shape)}: {error}") from error
