# task: affine
# on: gpu
#
# A graph for each shape; inputs are copied into its buffers, the output out of them.

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(features))
        self.graphs = {}

    def capture(self, x, y):
        inputs = (torch.empty_like(x), torch.empty_like(y))
        inputs[0].copy_(x)
        inputs[1].copy_(y)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            kit.affine(inputs[0], self.gain, inputs[1], 1.0, 0)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = kit.affine(inputs[0], self.gain, inputs[1], 1.0, 0)
        return graph, inputs, out

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        if x.shape not in self.graphs:
            self.graphs[x.shape] = self.capture(x, y)
        graph, inputs, out = self.graphs[x.shape]
        inputs[0].copy_(x)
        inputs[1].copy_(y)
        graph.replay()
        return out.clone()
