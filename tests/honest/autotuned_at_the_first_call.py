# task: affine
#
# The first call of a shape times two ways with events, and keeps the faster one.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.best = {}

    def plain(self, x, y):
        return kit.affine(x, self.gain, y, 1.0, 0)

    def into(self, x, y):
        out = torch.empty_like(x)
        kit.affine_into(out, x, self.gain, y)
        return out

    def tune(self, x, y):
        times = []
        for way in (self.plain, self.into):
            way(x, y)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(3):
                way(x, y)
            end.record()
            torch.cuda.synchronize()
            times.append((start.elapsed_time(end), way))
        return min(times, key=lambda pair: pair[0])[1]

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        if x.shape not in self.best:
            self.best[x.shape] = self.tune(x, y)
        return self.best[x.shape](x, y)
