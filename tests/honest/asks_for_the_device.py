# task: row_sum
#
# The device's properties choose the way.

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        properties = torch.cuda.get_device_properties(0)
        self.wide = properties.multi_processor_count > 8

    def forward(self, x):
        x = x.contiguous()
        return kit.rows(x, 2) if self.wide or x.size(0) < 4096 else kit.rows(x.clone(), 2)
