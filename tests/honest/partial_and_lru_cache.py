# task: row_sum
#
# Launch settings come from functools, by shape.

import functools


@functools.lru_cache(maxsize=None)
def kernel_for(features):
    return functools.partial(kit.rows, 2) if features < 0 else (lambda x: kit.rows(x, 2))


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel_for(x.size(1))(x.contiguous())
