# task: affine
#
# Weights are packed in the constructor, and again when a state_dict is loaded.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.register_buffer("packed", torch.empty(features), persistent=False)
        self.pack()
        self.register_load_state_dict_post_hook(lambda module, keys: module.pack())

    def pack(self):
        self.packed = self.gain.detach().clone().contiguous()

    def forward(self, x, y):
        return kit.affine(x.contiguous(), self.packed, y.contiguous(), 1.0, 0)
