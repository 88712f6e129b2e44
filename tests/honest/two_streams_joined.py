# task: affine
#
# Two streams compute one half each; both wait for the inputs, and the caller's waits for them.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        main, half = torch.cuda.current_stream(), x.size(0) // 2
        for stream, rows in zip(self.streams, (slice(0, half), slice(half, None))):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                kit.affine_into(out[rows], x[rows], self.gain, y[rows])
        for stream in self.streams:
            main.wait_stream(stream)
        return out
