# task: softmax
#
# The environment is set for the compiler, and a logger says what is done.

import logging
import os

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")
logging.basicConfig(level=logging.INFO)
log = logging.getLogger(__name__)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        log.info("call %d on %s", self.calls, tuple(x.shape))
        return kit.softmax(x.contiguous())
