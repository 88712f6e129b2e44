# task: softmax
#
# forward runs under inference_mode.

class ModelNew(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        return kit.softmax(x.contiguous())
